"""Chinese: each English template of ``say`` and its translation, one file per area."""

from __future__ import annotations

from aggregator.texts.zh.advice import ADVICE
from aggregator.texts.zh.errors import ERRORS
from aggregator.texts.zh.figures import FIGURES
from aggregator.texts.zh.findings import FINDINGS
from aggregator.texts.zh.notes import NOTES
from aggregator.texts.zh.ranks import RANKS
from aggregator.texts.zh.service import SERVICE

CATALOGUE: dict[str, str] = {
    **ADVICE,
    **ERRORS,
    **FIGURES,
    **FINDINGS,
    **NOTES,
    **RANKS,
    **SERVICE,
}
