// The picture with its box. All coordinates are pixels of the upright picture; zooming changes the view box only.

const HANDLES = { nw: [0, 1], ne: [2, 1], sw: [0, 3], se: [2, 3] };
const SVG = "http://www.w3.org/2000/svg";

export class BoxView {
  constructor(svg, onChange) {
    this.svg = svg;
    this.onChange = onChange; // (box or null, whether the gesture is over)
    this.image = svg.querySelector("#image");
    this.group = svg.querySelector("#box");
    this.box = null;
    this.size = [1, 1];
    this.readOnly = false;
    this.drag = null;
    this.space = false;
    this.frame = this.add("frame");
    this.handles = Object.keys(HANDLES).map((name) => this.add(`handle ${name}`, name));
    svg.addEventListener("pointerdown", (event) => this.down(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerup", (event) => this.up(event));
    svg.addEventListener("pointercancel", (event) => this.up(event));
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    svg.addEventListener("keydown", (event) => this.key(event));
    addEventListener("keydown", (event) => this.hold(event, true));
    addEventListener("keyup", (event) => this.hold(event, false));
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  add(kind, handle = "") {
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", kind);
    if (handle) rect.dataset.handle = handle;
    this.group.append(rect);
    return rect;
  }

  show(url, width, height, box, readOnly) {
    if (this.image.getAttribute("href") !== url) {
      this.image.setAttribute("href", url);
      this.size = [width, height];
      this.image.setAttribute("width", width);
      this.image.setAttribute("height", height);
      this.whole();
    }
    this.readOnly = readOnly;
    this.svg.classList.toggle("read", readOnly);
    this.set(box);
  }

  set(box) {
    this.box = box ? [...box] : null;
    this.draw();
  }

  whole() { this.look(0, 0, ...this.size); }

  look(x, y, width, height) {
    this.view = [x, y, width, height];
    this.svg.setAttribute("viewBox", this.view.join(" "));
    this.draw();
  }

  toBox() {
    if (!this.box) return;
    const [left, top, right, bottom] = this.box;
    const width = Math.max(right - left, 20) * 3, height = Math.max(bottom - top, 20) * 3;
    this.look((left + right - width) / 2, (top + bottom - height) / 2, width, height);
  }

  zoom(factor, at = null) {
    const [x, y, width, height] = this.view;
    const [cx, cy] = at ?? [x + width / 2, y + height / 2];
    const next = Math.min(Math.max(width * factor, 16), this.size[0] * 4);
    const scale = next / width;
    this.look(cx - (cx - x) * scale, cy - (cy - y) * scale, width * scale, height * scale);
  }

  // One screen pixel in picture pixels, and back.
  unit() {
    const matrix = this.svg.getScreenCTM();
    return matrix ? 1 / matrix.a : 1;
  }

  at(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [point.x, point.y];
  }

  draw() {
    this.group.toggleAttribute("hidden", !this.box);
    if (!this.box) return;
    const [left, top, right, bottom] = this.box;
    place(this.frame, left, top, right - left, bottom - top);
    const side = 9 * this.unit();
    for (const rect of this.handles) {
      const [i, j] = HANDLES[rect.dataset.handle];
      place(rect, this.box[i] - side / 2, this.box[j] - side / 2, side, side);
    }
  }

  down(event) {
    this.svg.focus();
    if (event.button > 1 || !this.view) return;
    event.preventDefault();
    this.svg.setPointerCapture(event.pointerId);
    const [x, y] = this.at(event);
    if (event.button === 1 || this.space || this.readOnly) this.drag = { kind: "pan", x, y };
    else if (event.target.dataset?.handle) this.drag = { kind: "resize", corner: HANDLES[event.target.dataset.handle], box: this.box };
    else if (event.target === this.frame) this.drag = { kind: "move", x, y, box: this.box };
    else this.drag = { kind: "draw", x, y, box: this.box };
  }

  move(event) {
    if (!this.drag) return;
    const { kind, x, y, box, corner } = this.drag;
    const [nowX, nowY] = this.at(event);
    if (kind === "pan") {
      this.look(this.view[0] + x - nowX, this.view[1] + y - nowY, this.view[2], this.view[3]);
      return;
    }
    if (kind === "draw") this.box = this.inside([x, y, nowX, nowY]);
    if (kind === "move") this.box = this.shifted(box, nowX - x, nowY - y);
    if (kind === "resize") {
      const next = [...box];
      next[corner[0]] = nowX;
      next[corner[1]] = nowY;
      this.box = this.inside(next);
    }
    this.draw();
    this.onChange(this.box, false);
  }

  up(event) {
    if (!this.drag) return;
    const { kind, box } = this.drag;
    this.drag = null;
    if (kind === "pan") return;
    const tiny = 3 * this.unit();
    const isClick = kind === "draw" && (!this.box || (this.box[2] - this.box[0] < tiny && this.box[3] - this.box[1] < tiny));
    if (isClick || event.type === "pointercancel") this.box = box;
    this.draw();
    this.onChange(this.box, true);
  }

  wheel(event) {
    event.preventDefault();
    this.zoom(Math.exp(event.deltaY * 0.0015), this.at(event));
  }

  hold(event, down) {
    if (event.key !== " " || event.target !== this.svg) return;
    event.preventDefault();
    this.space = down;
    this.svg.classList.toggle("pan", down);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey) return;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const arrow = arrows[event.key];
    const known = arrow || ["Enter", "Delete", "Backspace"].includes(event.key);
    if (!known || this.readOnly) return;
    event.preventDefault();
    if (event.key === "Enter" && !this.box) this.box = this.middle();
    else if (event.key === "Delete" || event.key === "Backspace") this.box = null;
    else if (arrow && this.box) {
      const step = event.altKey ? 1 : Math.max(1, this.view[2] / 100);
      const [dx, dy] = arrow.map((sign) => sign * step);
      const [left, top, right, bottom] = this.box;
      this.box = event.shiftKey ? this.inside([left, top, Math.max(left + 1, right + dx), Math.max(top + 1, bottom + dy)]) : this.shifted(this.box, dx, dy);
    } else return;
    this.draw();
    this.onChange(this.box, true);
  }

  middle() {
    const [x, y, width, height] = this.view;
    return this.inside([x + width * 0.45, y + height * 0.45, x + width * 0.55, y + height * 0.55]);
  }

  inside(box) {
    const xs = [box[0], box[2]].map((x) => clamp(Math.round(x), 0, this.size[0])).sort((a, b) => a - b);
    const ys = [box[1], box[3]].map((y) => clamp(Math.round(y), 0, this.size[1])).sort((a, b) => a - b);
    return xs[0] < xs[1] && ys[0] < ys[1] ? [xs[0], ys[0], xs[1], ys[1]] : null;
  }

  shifted(box, dx, dy) {
    const x = clamp(Math.round(dx), -box[0], this.size[0] - box[2]);
    const y = clamp(Math.round(dy), -box[1], this.size[1] - box[3]);
    return [box[0] + x, box[1] + y, box[2] + x, box[3] + y];
  }
}

function clamp(value, low, high) { return Math.min(Math.max(value, low), high); }

function place(rect, x, y, width, height) {
  for (const [name, value] of Object.entries({ x, y, width, height })) rect.setAttribute(name, value);
}
