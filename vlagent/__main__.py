"""`python -m vlagent`."""

from vlagent.cli.main import main

raise SystemExit(main())
