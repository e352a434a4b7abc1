"""Amounts: a number with a unit, a currency or the name of what is counted. Only exact conversions count as equal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from vlagent.rewards.numbers import SHORT_SCALES, Number, read_number
from vlagent.rewards.plain import key

Unit = tuple[str, Fraction]
"""A dimension and how many of its base units this one is."""

_TABLE = """
length: 1/1000 mm millimeter millimetre; 1/100 cm centimeter centimetre; 1 m meter metre; 1000 km kilometer kilometre
length: 1/1000000 µm um micrometer micrometre micron; 1/1000000000 nm nanometer nanometre
length: 127/5000 in inch inches "; 381/1250 ft foot feet '; 1143/1250 yd yard; 1609344/1000 mi mile; 1852 nmi
light-year: 1 ly light-year lightyear
parsec: 1 pc parsec
astronomical unit: 1 au
mass: 1/1000000 mg milligram; 1/1000 g gram gramme; 1 kg kilogram kilogramme kilo; 1000 t tonne
mass: 1000 metric_ton metric_tonne
mass: 45359237/1600000000 oz ounce; 45359237/100000000 lb lbs pound; 635029318/100000000 st
ton: 1 ton
carat: 1 ct carat
karat: 1 kt karat
time: 1/1000 ms millisecond; 1 s sec secs second; 60 min mins minute; 3600 h hr hrs hour; 86400 d day; 604800 wk week
months: 1 month mo; 12 y yr yrs year; 120 decade; 1200 century centuries; 12000 millennium millennia
area: 1/1000000 mm2 square_millimeter square_millimetre; 1/10000 cm2 square_centimeter square_centimetre
area: 1 m2 sqm sq_m square_meter square_metre; 1000000 km2 sq_km square_kilometer square_kilometre
area: 10000 ha hectare; 145161/1562500 ft2 sqft sq_ft square_foot square_feet
area: 2589988110336/1000000 mi2 sq_mi square_mile; 316160658/78125 acre
volume: 1/1000000 ml mL milliliter millilitre cm3 cc; 1/100000 cl cL centiliter centilitre; 1/1000 l L liter litre
volume: 1 m3 cubic_meter cubic_metre; 1000000000 km3 cubic_kilometer cubic_kilometre; 1/10 hl hL hectoliter
gallon: 1 gal gallon
pint: 1 pint pt
barrel: 1 barrel bbl
fluid ounce: 1 fl_oz fluid_ounce
speed: 1/3600 km/h kph kmh kilometer_per_hour kilometre_per_hour; 1 km/s
speed: 1/1000 m/s meter_per_second metre_per_second
speed: 1609344/3600000000 mph mi/h mile_per_hour; 1852/3600000 kn knot
celsius: 1 °C degree_celsius degree_centigrade degree_C celsius
fahrenheit: 1 °F degree_fahrenheit degree_F fahrenheit
kelvin: 1 K kelvin
angle: 1 ° degree deg
power: 1/1000 mW milliwatt; 1 W watt; 1000 kW kilowatt; 1000000 MW megawatt; 1000000000 GW gigawatt
horsepower: 1 hp horsepower bhp
metric horsepower: 1 PS
energy: 1 J joule; 1000 kJ kilojoule; 1000000 MJ megajoule; 3600 Wh watt_hour; 3600000 kWh kilowatt_hour
energy: 3600000000 MWh megawatt_hour; 3600000000000 GWh gigawatt_hour
calorie: 1 cal; 1000 kcal kilocalorie
food calorie: 1 Cal calorie
voltage: 1/1000 mV millivolt; 1 V volt; 1000 kV kilovolt
current: 1/1000 mA milliamp milliampere; 1 A amp ampere
charge: 1 mAh milliamp_hour; 1000 Ah
frequency: 1 Hz hertz; 1000 kHz kilohertz; 1000000 MHz megahertz; 1000000000 GHz gigahertz
pressure: 1 Pa pascal; 100 hPa hectopascal mbar millibar; 1000 kPa kilopascal; 1000000 MPa megapascal; 100000 bar
psi: 1 psi
force: 1 N newton; 1000 kN kilonewton
torque: 1 Nm newton_meter newton_metre
decibel: 1 dB decibel
kilobyte: 1 KB kB kilobyte
megabyte: 1 MB megabyte
gigabyte: 1 GB gigabyte gig
terabyte: 1 TB terabyte
megabit: 1 Mb megabit Mbit
rate: 1 kbps; 1000 Mbps mbps megabit_per_second; 1000000 Gbps gbps gigabit_per_second
pixel: 1 px pixel; 1000000 MP megapixel
revolutions: 1 rpm revolutions_per_minute
USD: 1 $ US$ U.S.$ USD dollar US_dollar U.S._dollar
USD: 1/100 cent ¢
EUR: 1 € EUR euro; 1/100 cent eurocent
GBP: 1 £ GBP pound pound_sterling pounds_sterling british_pound quid; 1/100 pence penny p
JPY: 1 ¥ JPY JP¥ yen japanese_yen
CNY: 1 ¥ CNY CN¥ RMB yuan renminbi chinese_yuan
INR: 1 ₹ INR Rs Rs. rupee indian_rupee
KRW: 1 ₩ KRW won
RUB: 1 ₽ RUB ruble rouble
CHF: 1 CHF swiss_franc
AUD: 1 AUD A$ AU$ australian_dollar
CAD: 1 CAD C$ CA$ canadian_dollar
HKD: 1 HKD HK$ hong_kong_dollar
NZD: 1 NZD NZ$ new_zealand_dollar
SGD: 1 SGD S$ singapore_dollar
TWD: 1 TWD NT$ new_taiwan_dollar
BRL: 1 BRL R$ brazilian_real reais
MXN: 1 MXN mexican_peso
SEK: 1 SEK swedish_krona swedish_kronor
NOK: 1 NOK norwegian_krone
DKK: 1 DKK danish_krone
PLN: 1 PLN zł złoty zloty
TRY: 1 TRY ₺ turkish_lira
BTC: 1 BTC ₿ bitcoin
people: 1 people person
"""
CURRENCIES = frozenset(
    [
        "USD",
        "EUR",
        "GBP",
        "JPY",
        "CNY",
        "INR",
        "KRW",
        "RUB",
        "CHF",
        "AUD",
        "CAD",
        "HKD",
        "NZD",
        "SGD",
        "TWD",
        "BRL",
        "MXN",
        "SEK",
        "NOK",
        "DKK",
        "PLN",
        "TRY",
    ]
)
MONEY_SCALES = {**SHORT_SCALES, "m": 10**6, "b": 10**9, "t": 10**12, "T": 10**12, "Mn": 10**6, "Bn": 10**9}
SIGN = r"(?:US|U\.S\.|A|AU|C|CA|HK|NZ|S|NT|R|JP|CN)?[$¥]|[€£₹₩₽₺₿]|Rs\.?|[A-Z]{3}"
MONEY_FIRST = re.compile(rf"(?P<minus>-?)\s?(?P<sign>{SIGN})\s?(?P<amount>[-\d.].*)")
DECADE = re.compile(r"\d*0's|\d*0s")
"""The 1990s and the 90s are not seconds."""


def _read_table() -> dict[str, list[Unit]]:
    units: dict[str, list[Unit]] = {}
    for line in _TABLE.strip().splitlines():
        dimension, _, entries = line.partition(": ")
        for entry in entries.split("; "):
            factor, *names = entry.split(" ")
            for name in names:
                units.setdefault(name.replace("_", " "), []).append((dimension, Fraction(factor)))
    return units


UNITS = _read_table()
LOWER = {name.casefold(): units for name, units in UNITS.items() if len(name) > 4}
"""Long names may be written in any case; short ones mean something else in another case (mW, MW)."""


@dataclass(frozen=True)
class Amount:
    """Every reading of a text as (dimension, value in its base unit)."""

    readings: frozenset[Unit]


def same_amount(a: Amount, b: Amount) -> bool:
    """Whether some reading of both is the same amount of the same thing, exactly."""
    return bool(a.readings & b.readings)


def read_amount(text: str) -> Amount | None:
    """Read a clean text as number and unit ($1.5 million, 5 km, 5 ft 11 in, 12 people), or None."""
    text = re.sub(r"(?<=\d)-(?=[a-z]{2,})", " ", text.strip())
    if DECADE.fullmatch(text):
        return None
    money = MONEY_FIRST.fullmatch(text)
    if money and money["sign"] in UNITS:
        amount = _amount_of_money(money["amount"], UNITS[money["sign"]])
        return _negate(amount) if amount and money["minus"] else amount
    compound = _read_compound(text)
    if compound:
        return compound
    for number, unit in _splits(text):
        units = _units(unit)
        if units and units[0][0] in CURRENCIES:
            amount = _amount_of_money(number, units)
        else:
            value = read_number(number)
            amount = _scale(value, units or _noun(unit)) if value and value.form != "percent" else None
        if amount:
            return amount
    return None


def _splits(text: str) -> list[tuple[str, str]]:
    """Every way to cut a text into a number and what follows, the longest number first."""
    cuts = [m.start() for m in re.finditer(r"(?<=\d)(?=[^\d\s.,/])|\s|(?<=[kKMBmnt])(?=[$€£¥])", text)]
    return [(text[:cut].strip(), text[cut:].strip()) for cut in reversed(cuts[:12]) if text[cut:].strip()]


def _units(text: str) -> list[Unit]:
    """The units that a name may stand for: itself, in lower case, without its plural, with `per` or a hyphen undone."""
    name = " ".join(text.replace("^", "").split())
    if name in UNITS:
        return UNITS[name]
    bare = name.removesuffix(".") if len(name) > 2 else name
    lowered = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", bare.casefold())
    lowered = lowered.replace("degrees ", "degree ").replace("kilometres per", "kilometre per")
    lowered = re.sub(r"(\w+?)s per\b", r"\1 per", lowered)
    singular = lowered.removesuffix("s") if lowered[:1].isalpha() else lowered
    for candidate in (lowered, singular, bare.removeprefix("° ")):
        if candidate in LOWER or (candidate in UNITS and _case_is_free(candidate, bare)):
            return LOWER.get(candidate) or UNITS[candidate]
    if re.fullmatch(r"°\s?[cCfF]", name):
        return UNITS[f"°{name[-1].upper()}"]
    return []


def _case_is_free(unit: str, written: str) -> bool:
    """KM, Km, LBS and FT are slips; MW for mW is not."""
    return written.removesuffix("s") in (unit, unit.removesuffix("s")) or unit in {
        "km",
        "cm",
        "kg",
        "lb",
        "lbs",
        "ft",
        "hr",
        "hrs",
        "sec",
        "min",
        "mph",
        "oz",
        "yd",
    }


def _noun(text: str) -> list[Unit]:
    """What is counted, where it is words and no unit that we know: five dogs, 12 storeys."""
    if not re.fullmatch(r"[^\W\d_][^\d,;:()/]{2,60}", text) or re.match(r"(?:or|and|to|of|in|per|point)\b", text):
        return []
    return [(f"noun {key(text)}", Fraction(1))]


def _amount_of_money(text: str, units: list[Unit]) -> Amount | None:
    value = read_number(text)
    if value is None:
        found = re.fullmatch(r"([-\d., ]+?)\s?([A-Za-z]+)\.?", text)
        number = read_number(found[1]) if found else None
        scale = MONEY_SCALES.get(found[2]) if found else None
        value = Number(number.value * scale) if number and scale else None
    return _scale(value, units) if value and value.form == "plain" else None


def _scale(value: Number, units: list[Unit]) -> Amount | None:
    if not units:
        return None
    return Amount(frozenset((dimension, value.value * factor) for dimension, factor in units))


def _negate(amount: Amount) -> Amount:
    return Amount(frozenset((dimension, -value) for dimension, value in amount.readings))


COMPOUND = re.compile(r"(\d+(?:\.\d+)?)\s?(°|'|\"|[A-Za-z]+\.?)(?:,?\s(?:and\s)?|(?<=['\"a-z])(?=\d)|$)")


def _read_compound(text: str) -> Amount | None:
    """Several parts of one dimension, each smaller than the one before: 5 ft 11 in, 1 h 30 min."""
    parts = list(COMPOUND.finditer(text))
    if len(parts) < 2 or "".join(m[0] for m in parts) != text:
        return None
    total, dimension, last = Fraction(0), "", None
    for part in parts:
        units = _units(part[2])
        if not units or (dimension and units[0][0] != dimension) or (last is not None and units[0][1] >= last):
            return None
        dimension, last = units[0]
        total += Fraction(part[1]) * last
    return Amount(frozenset({(dimension, total)}))
