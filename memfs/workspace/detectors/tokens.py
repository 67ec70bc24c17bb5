"""Tokens that have a form of their own: what providers say theirs look like, where no library knows it."""

import re
from collections.abc import Callable, Iterator

from memfs.workspace.detectors.rules import Rule, Span, View, begins_in_a_word

# What providers say their tokens look like, where the library knows nothing of it: name, parts of which each such token
# has one (lower case), pattern.
_TOKENS = (
    ("Anthropic API key", "sk-ant-", r"sk-ant-[a-z]{2,12}\d\d-[\w-]{32,}"),
    ("OpenAI API key", "sk-", r"sk-(?:proj|svcacct|admin|None)-[\w-]{32,}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("OpenRouter API key", "sk-or-", r"sk-or-v\d-[0-9a-f]{64}"),
    ("Google API key", "aiza", r"AIza[\w-]{35}"),
    ("Google OAuth secret", "gocspx-", r"GOCSPX-[\w-]{28}"),
    ("Google access token", "ya29.", r"ya29\.[\w-]{30,}"),
    ("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{34,}"),
    ("GitHub token", "github_pat_", r"github_pat_\w{60,}"),
    (
        "GitLab token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- glffct-",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct)-[\w.-]{20,}",
    ),
    ("PyPI token", "pypi-a", r"pypi-AgE[\w-]{50,}"),
    ("crates.io token", "cio", r"cio[A-Za-z0-9]{32}"),
    ("RubyGems API key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    ("Docker token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{27,}"),
    ("Slack token", "xapp-", r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{32,}"),
    ("Slack token", "xoxe", r"xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{64,}"),
    ("Discord bot token", ".", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),
    ("Discord webhook", "/webhooks/", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/[\w-]{60,}"),
    ("Telegram bot token", ":aa", r"\d{8,10}:AA[\w-]{32,33}"),
    ("Stripe key", "k_live_ k_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{24,}"),
    ("Stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{32,}"),
    ("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}"),
    ("Mailgun API key", "key-", r"key-[0-9a-f]{32}"),
    ("Brevo API key", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("Resend API key", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
    ("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("Databricks token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("Azure client secret", "q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    ("Azure SAS signature", "sig=", r"(?<=sig=)[A-Za-z0-9%+/]{43,}(?:%3D|=)"),
    ("Alibaba Cloud key", "ltai", r"LTAI[A-Za-z0-9]{16,20}"),
    ("Linear API key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    ("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    ("Notion token", "secret_", r"secret_[A-Za-z0-9]{43}"),
    ("Figma token", "figd_", r"figd_[\w-]{40,}"),
    ("Airtable token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("Atlassian token", "atatt3 atctt3 atbb", r"AT(?:ATT3|CTT3|BB)[\w=-]{24,}"),
    ("Postman API key", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("Grafana token", "glsa_ glc_", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_[A-Za-z0-9+/=]{32,}"),
    ("Sentry token", "sntry", r"sntryu_[0-9a-f]{64}|sntrys_[\w+/=]{40,}"),
    ("New Relic API key", "nrak- nral-", r"NRA[KL]-[A-Z0-9]{27}"),
    ("Sonar token", "sqa_ sqp_ squ_", r"sq[apu]_[0-9a-f]{40}"),
    ("LangSmith API key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("Groq API key", "gsk_", r"gsk_[A-Za-z0-9]{48,}"),
    ("xAI API key", "xai-", r"xai-[A-Za-z0-9]{70,}"),
    ("Perplexity API key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    ("Replicate token", "r8_", r"r8_[A-Za-z0-9]{37}"),
    ("Pinecone API key", "pcsk_", r"pcsk_[\w-]{50,}"),
    ("NVIDIA API key", "nvapi-", r"nvapi-[\w-]{60,}"),
    ("Supabase key", "sbp_ sb_secret_", r"sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,}"),
    ("PlanetScale token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}"),
    ("HashiCorp Vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{24,}"),
    ("Terraform token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}"),
    ("Pulumi token", "pul-", r"pul-[0-9a-f]{40}"),
    ("Doppler token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]+\.)?[A-Za-z0-9]{40,}"),
    ("Fly.io token", "fo1_ fm2_", r"fo1_[\w-]{40,}|fm2_[\w+/=]{60,}"),
    ("Tailscale key", "tskey-", r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{16,}"),
    ("age secret key", "age-secret-key-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("password hash", "$2", r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}"),
    ("password hash", "$5$ $6$", r"\$[56]\$(?:rounds=\d+\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43,86}"),
    ("password hash", "$argon2", r"\$argon2(?:id|i|d)\$v=\d+\$[\w=,]+\$[\w+/]+\$[\w+/]{20,}"),
)


def _looks_random(token: str) -> bool:
    """Whether a token has what a random one has: a digit or both cases. An identifier may well have neither."""
    return any(char.isdigit() for char in token) or (token != token.lower() and token != token.upper())


def _tokens(pattern: str) -> Callable[[View], Iterator[Span]]:
    compiled = re.compile(rf"(?:{pattern})(?![A-Za-z0-9])")

    def spans(view: View) -> Iterator[Span]:
        for match in compiled.finditer(view.text):
            if not begins_in_a_word(view.text, match.start()) and _looks_random(match[0][6:]):
                yield match.span()

    return spans


RULES = tuple(Rule("secret", label, tuple(anchors.split()), _tokens(pattern)) for label, anchors, pattern in _TOKENS)

# Several providers', and the beginning of others above.
UNNAMED_RULES = (Rule("secret", "API key", ("sk-",), _tokens(r"sk-[A-Za-z0-9]{32,64}")),)
