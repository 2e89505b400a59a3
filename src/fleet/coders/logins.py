"""What each agent CLI documents as its login: where it keeps one, and which variables carry one. Data, and no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Keys of one provider, and the variables that say what they are good for: its address first. They are passed on
    together or not at all, so that no key is sent to another address.
    """

    keys: tuple[str, ...]
    where: tuple[str, ...]

    @property
    def decisive(self) -> tuple[str, ...]:
        """The variables of which a user who sets one has chosen for himself."""
        return (*self.keys, *self.where[:1])


@dataclass(frozen=True, slots=True)
class Store:
    """A JSON file below the user's home in which an agent CLI keeps a login, and the fields by which that is seen."""

    file: str
    fields: tuple[str, ...] = ()  # a path in it, such as security.auth; empty: any content


@dataclass(frozen=True, slots=True)
class Login:
    """How a user logs in to an agent CLI, and how it is seen that he has."""

    command: str
    stores: tuple[Store, ...] = ()
    access: tuple[Access, ...] = ()
    directory: str = ""  # the variable that moves the directory of the stores
    asks_about: str = ""  # the key of which it asks in a terminal whether it is to be used
    login_screen: str = ""  # what it shows instead of a prompt to who is not logged in


OPENAI = Access(("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_MODEL"))
ANTHROPIC = Access(("ANTHROPIC_API_KEY",), ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"))
GEMINI = Access(
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
)
OTHERS = tuple(Access((f"{name}_API_KEY",), ()) for name in ("OPENROUTER", "DEEPSEEK", "GROQ", "MISTRAL", "XAI"))
CLAUDE = Access(
    ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    (
        "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL",
        "CLAUDE_CODE_DISABLE_1M_CONTEXT", "CLAUDE_CODE_MAX_CONTEXT_TOKENS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_ATTRIBUTION_HEADER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    ),
)  # fmt: skip
LOGINS: Mapping[str, Login] = {
    "claude": Login(
        "claude /login",
        (
            Store(".claude/.credentials.json", ("claudeAiOauth",)),
            Store(".claude/settings.json", ("apiKeyHelper",)),
            Store(".claude.json", ("oauthAccount", "primaryApiKey")),
        ),
        (CLAUDE,), "CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY", "Select login method",
    ),
    "codex": Login(
        "codex login", (Store(".codex/auth.json"),),
        (Access(("CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY"), ("OPENAI_BASE_URL",)),), "CODEX_HOME",
        login_screen="Sign in with ChatGPT",
    ),
    "opencode": Login(
        "opencode auth login", (Store(".local/share/opencode/auth.json"),), (ANTHROPIC, OPENAI, GEMINI, *OTHERS),
    ),
    "aider": Login(
        "export OPENAI_API_KEY=…  # or a key in ~/.aider.conf.yml", (), (ANTHROPIC, OPENAI, GEMINI, *OTHERS)
    ),
    "gemini": Login("gemini, then /auth", (Store(".gemini/oauth_creds.json"),), (GEMINI,)),
    "qwen": Login(
        "qwen, then /auth",
        (Store(".qwen/oauth_creds.json"), Store(".qwen/settings.json", ("security.auth.apiKey",))), (OPENAI,),
    ),
}  # fmt: skip
