"""Messages to wire forms: dialects, image sizing, neutralisation."""
