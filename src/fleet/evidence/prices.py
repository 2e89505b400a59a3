"""What tokens cost, by a price list that other people keep: genai-prices, which is loaded when a price is asked for.

The list is the one that was installed: nothing is fetched. Prices are those of an ordinary request; what a provider
asks for beyond it (long prompts, fast answers), or leaves off it (batches, contracts), is not in an estimate.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from fleet.core.work import Usage

# In front of a model's name, as LiteLLM and OpenCode write it; and whose prices these are.
PROVIDERS = {
    "anthropic": "anthropic", "azure": "azure", "bedrock": "aws", "cerebras": "cerebras", "cohere": "cohere",
    "deepseek": "deepseek", "fireworks_ai": "fireworks", "gemini": "google", "google": "google", "groq": "groq",
    "mistral": "mistral", "moonshot": "moonshotai", "novita": "novita", "openai": "openai", "openrouter": "openrouter",
    "perplexity": "perplexity", "together_ai": "together", "vertex_ai": "google", "xai": "x-ai",
}  # fmt: skip
A_FEW = 1000  # tokens: more of them at once may have a price of their own
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for one token."""

    prompt: Decimal
    completion: Decimal
    cache_read: Decimal
    cache_write: Decimal

    def of(self, usage: Usage) -> Decimal:
        """What was read from a cache or written to one has a price of its own; without a word about it, it had not."""
        read, wrote = usage.cache_read or 0, usage.cache_write or 0
        plain = max(0, usage.prompt - read - wrote)
        return (
            plain * self.prompt + read * self.cache_read + wrote * self.cache_write + usage.completion * self.completion
        )


def price(model: str, usage: Usage, at: float) -> Decimal | None:
    """The US dollars that a model's tokens cost at a time, by the list; None for one that is not on it."""
    found = rates(model, int(at // DAY))
    return None if found is None else found.of(usage)


@lru_cache(maxsize=1024)
def rates(model: str, day: int) -> Rates | None:
    """The prices of a model on a day since 1970; None for one that is not on the list."""
    prefix, _, rest = model.partition("/")
    named = [(model, None)] if prefix not in PROVIDERS or not rest else [(rest, PROVIDERS[prefix]), (rest, None)]
    when = datetime.fromtimestamp(day * DAY + DAY // 2, UTC)
    return next((found for name, whose in named if name and (found := _look_up(name, whose, when))), None)


def _look_up(model: str, provider: str | None, when: datetime) -> Rates | None:
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "1"
    )  # else a broken package beside us keeps the list from loading
    from genai_prices import Usage as Listed  # a third of a second
    from genai_prices import calc_price

    def one(**tokens: int) -> Decimal:
        found = calc_price(Listed(**tokens), model_ref=model, provider_id=provider, genai_request_timestamp=when)
        return found.total_price / A_FEW

    try:
        prompt, completion = one(input_tokens=A_FEW), one(output_tokens=A_FEW)
        read = one(input_tokens=A_FEW, cache_read_tokens=A_FEW)
        return Rates(prompt, completion, read, one(input_tokens=A_FEW, cache_write_tokens=A_FEW))
    except (LookupError, ValueError):
        return None
