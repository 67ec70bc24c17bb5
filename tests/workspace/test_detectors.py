"""What the guards' detectors find, what they must not find, and that masked text is left alone by them.

No secret here was ever one: each is made of a form and of characters counted off.
"""

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfs.model.errors import InvalidRequest
from memfs.model.records import MAX_CONTENT_BYTES
from memfs.workspace import detectors
from memfs.workspace.detectors import Finding, Kind, search

BOTH: tuple[Kind, Kind] = ("secret", "personal_data")

HEX = "0123456789abcdef"
UPPER = "A2B3C4D5E6F7G2H3J4K5L6M7N2P3Q4R5"
MIXED = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"


def fake(length: int, characters: str = MIXED) -> str:
    """Characters counted off."""
    return (characters * (length // len(characters) + 1))[:length]


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def pem(kind: str, newline: str = "\n", indent: str = "") -> str:
    lines = [f"-----BEGIN {kind}-----", *[fake(64)] * 12, fake(30) + "==", f"-----END {kind}-----"]
    return newline.join(indent + line for line in lines).strip()


WEB_TOKEN = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': 'nobody', 'iat': 1})}.{fake(43)}"
PUTTY = f"PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nPrivate-Lines: 1\n{fake(64)}\nPrivate-MAC: {fake(40, HEX)}"


def found(text: str, *kinds: Kind) -> list[tuple[str, str]]:
    """Label and text of each finding."""
    return [(each.label, text[each.start : each.end]) for each in detectors.find(text, kinds or BOTH)]


# ---- secrets that are found: label, the text around, the secret ------------------------------------------------------

SECRETS = [
    ("AWS access key", "The key is {}, use it for S3.", "AKIA" + fake(16, UPPER)),
    ("AWS secret key", "aws_secret_access_key = {}", fake(40)),
    ("secret key", 'AWS_SECRET_ACCESS_KEY: "{}"', "/" + fake(18) + "+" + fake(20) + "/"),
    ("Azure storage key", "AccountName=me;AccountKey={};EndpointSuffix=core.windows.net", fake(86) + "=="),
    ("Azure client secret", "{}", fake(3) + "8Q~" + fake(34)),
    ("Azure SAS signature", "https://me.blob.core.windows.net/c?sv=2020&sig={}&se=1", fake(43) + "%3D"),
    ("Artifactory token", "artifactory: {}", "AKC" + fake(60)),
    ("GitHub token", "the remote uses {} now", "ghp_" + fake(36)),
    ("GitHub token", "{}", "ghs_" + fake(50)),
    ("GitHub token", "({})", "github_pat_" + fake(22) + "_" + fake(59)),
    ("GitLab token", "use `{}` for CI", "glpat-" + fake(20)),
    ("Anthropic API key", "ANTHROPIC_API_KEY={}", "sk-ant-api03-" + fake(93) + "AA"),
    ("Anthropic API key", "{}", "sk-ant-api03-" + fake(60) + "-_" + fake(31) + "AA"),
    ("OpenAI API key", "export OPENAI_API_KEY={}", "sk-proj-" + fake(74) + "T3BlbkFJ" + fake(74)),
    ("OpenAI API key", "openai: {}", "sk-" + fake(20) + "T3BlbkFJ" + fake(20)),
    ("OpenRouter API key", "{}", "sk-or-v1-" + fake(64, HEX)),
    ("API key", "{}", "sk-" + fake(32, HEX)),
    ("Google API key", "maps: {}", "AIza" + fake(35)),
    ("Google OAuth secret", "client_secret: {}", "GOCSPX-" + fake(28)),
    ("Google access token", "{}", "ya29." + fake(60)),
    ("Hugging Face token", "hf token {}", "hf_" + fake(34)),
    ("Groq API key", "{}", "gsk_" + fake(52)),
    ("xAI API key", "{}", "xai-" + fake(80)),
    ("Perplexity API key", "{}", "pplx-" + fake(48)),
    ("Replicate token", "{}", "r8_" + fake(37)),
    ("NVIDIA API key", "{}", "nvapi-" + fake(64)),
    ("Pinecone API key", "{}", "pcsk_" + fake(70)),
    ("LangSmith API key", "{}", "lsv2_pt_" + fake(32, HEX) + "_" + fake(10, HEX)),
    ("Slack token", "slack {}", "xoxb-" + fake(12, "0123456789") + "-" + fake(13, "0123456789") + "-" + fake(24)),
    ("Slack token", "{}", "xapp-1-A012345-0123456789-" + fake(64, HEX)),
    ("Slack webhook", "{}", "https://hooks.slack.com/services/T0123ABCD/B0123ABCD/" + fake(24)),
    ("Discord bot token", "DISCORD_TOKEN={}", "M" + fake(23) + "." + fake(6) + "." + fake(38)),
    ("Discord webhook", "post to {}", "https://discord.com/api/webhooks/" + fake(18, "0123456789") + "/" + fake(68)),
    ("Telegram bot token", "bot {}", "1234567890:AA" + fake(33)),
    ("Stripe key", "STRIPE={}", "sk_live_" + fake(24)),
    ("Stripe key", "{}", "rk_live_" + fake(99)),
    ("Stripe key", "{}", "sk_test_" + fake(24)),
    ("Stripe webhook secret", "{}", "whsec_" + fake(32)),
    ("Square secret", "{}", "sq0csp-" + fake(43)),
    ("npm token", "//registry/:_authToken={}", "npm_" + fake(36)),
    ("npm token", "_authToken={}", "01234567-89ab-cdef-0123-456789abcdef"),
    ("PyPI token", "password = {}", "pypi-AgEIcHlwaS5vcmc" + fake(120)),
    ("crates.io token", "{}", "cio" + fake(32)),
    ("RubyGems API key", "{}", "rubygems_" + fake(48, HEX)),
    ("Docker token", "{}", "dckr_pat_" + fake(27)),
    ("SendGrid API key", "{}", "SG." + fake(22) + "." + fake(43)),
    ("Mailchimp API key", "{}", fake(32, HEX) + "-us12"),
    ("Mailgun API key", "{}", "key-" + fake(32, HEX)),
    ("Brevo API key", "{}", "xkeysib-" + fake(64, HEX) + "-" + fake(16)),
    ("Resend API key", "{}", "re_" + fake(8) + "_" + fake(24)),
    ("Twilio API key", "{}", "SK" + fake(32, HEX)),
    ("DigitalOcean token", "{}", "dop_v1_" + fake(64, HEX)),
    ("Databricks token", "{}", "dapi" + fake(32, HEX)),
    ("Alibaba Cloud key", "{}", "LTAI" + fake(20)),
    ("Shopify token", "{}", "shpat_" + fake(32, HEX)),
    ("Linear API key", "{}", "lin_api_" + fake(40)),
    ("Notion token", "{}", "ntn_" + fake(46)),
    ("Notion token", "{}", "secret_" + fake(43)),
    ("Figma token", "{}", "figd_" + fake(43)),
    ("Airtable token", "{}", "pat" + fake(14) + "." + fake(64, HEX)),
    ("Atlassian token", "{}", "ATATT3" + fake(186)),
    ("Postman API key", "{}", "PMAK-" + fake(24, HEX) + "-" + fake(34, HEX)),
    ("Grafana token", "{}", "glsa_" + fake(32) + "_" + fake(8, HEX)),
    ("Sentry token", "{}", "sntryu_" + fake(64, HEX)),
    ("New Relic API key", "{}", "NRAK-" + fake(27, UPPER)),
    ("Sonar token", "{}", "squ_" + fake(40, HEX)),
    ("Supabase key", "{}", "sbp_" + fake(40, HEX)),
    ("PlanetScale token", "{}", "pscale_tkn_" + fake(43)),
    ("HashiCorp Vault token", "{}", "hvs." + fake(95)),
    ("Terraform token", "{}", fake(14) + ".atlasv1." + fake(67)),
    ("Pulumi token", "{}", "pul-" + fake(40, HEX)),
    ("Doppler token", "{}", "dp.pt." + fake(43)),
    ("Fly.io token", "{}", "fo1_" + fake(43)),
    ("Tailscale key", "{}", "tskey-auth-" + fake(12) + "-" + fake(32)),
    ("age secret key", "{}", "AGE-SECRET-KEY-1" + fake(58, UPPER)),
    ("JSON Web Token", "cookie: {}; path=/", WEB_TOKEN),
    ("JSON Web Token", "Authorization: Bearer {}.", WEB_TOKEN),
    ("password hash", "root:{}:19000:0:99999:7:::", "$6$" + fake(16) + "$" + fake(86)),
    ("password hash", "admin:{}", "$2b$12$" + fake(53)),
    ("password hash", "{}", "$argon2id$v=19$m=65536,t=3,p=4$" + fake(22) + "$" + fake(43)),
    # private keys, whole
    ("private key", "here:\n{}\nend", pem("RSA PRIVATE KEY")),
    ("private key", "{}", pem("OPENSSH PRIVATE KEY")),
    ("private key", "{}\r\n", pem("EC PRIVATE KEY", "\r\n")),
    ("private key", "key: |\n  {}\nother: 1\n", pem("PRIVATE KEY", "\n", "  ")),
    ("private key", "> {}\n> and so on", pem("PRIVATE KEY", "\n", "> ").removeprefix("> ")),
    ("private key", '{{"private_key": "{}\\n"}}', pem("PRIVATE KEY", "\\n")),
    ("private key", "{}", pem("PGP PRIVATE KEY BLOCK").replace("-----\n", "-----\nVersion: 1\n\n", 1)),
    (
        "private key",
        "{}",
        pem("RSA PRIVATE KEY").replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\n", 1),
    ),
    ("private key", "{}\n\nand no end", pem("RSA PRIVATE KEY").rpartition("\n")[0]),
    ("private key", "{}\n", PUTTY),
    # by what stands before them
    ("password", "password = {}", "hunter2secret"),
    ("password", "Password: {}", "Tr0ub4dor&3"),
    ("password", "- **Password:** {}", "Tr0ub4dor&3"),
    ("password", "**Password**: `{}`", "Tr0ub4dor&3"),
    ("password", "| admin password | {} | x |", "Tr0ub4dor&3"),
    ("password", '{{"db_password": "{}"}}', "correct-horse-9"),
    ("password", r'"{{\"password\": \"{}\"}}"', "hunter2x"),
    ("password", 'password: str = "{}"', "hunter2x"),
    ("password", 'passphrase = "{}"', "correcthorsebattery"),
    ("password", "The password is {}.", "Winter2024!"),
    ("password", "the password for staging is {}, as ever", "hunter2x"),
    ("password", "Password (router): {}", "hunter2x"),
    ("password", "Passwort: {}", "Geheim!2024"),
    ("password", "Das Passwort für den Server lautet {}.", "Geheim!2024"),
    ("password", "user: bob / pass: {}", "hunter2x"),
    ("password", "export DB_PASS={}", "xK9!mmQ2"),
    ("password", "DB_PASSWORD='{}'", "S3cr3t!"),
    ("password", "Server=db;User Id=sa;Password={};Encrypt=yes", "Str0ng!Pw"),
    ("password", "login?user=bob&password={}&x=1", "hunter2x"),
    ("password", "tool --password {} run", "hunter2x"),
    ("password", "tool --db-password={} run", "hunter2x"),
    ("password", "mysql -u root -p{} app", "hunter2x"),
    ("password", "sshpass -p '{}' ssh host", "hunter2x"),
    ("password", "curl -s -u admin:{} https://x.example", "hunter2x"),
    ("password", "machine api.x login bob password {}", "hunter2x"),
    ("password", "postgres://app:{}@db.internal:5432/app", "hunter2x"),
    ("password", "mongodb+srv://admin:{}@cluster0.x.example/test", "hunter2x"),
    ("password", "redis://:{}@cache:6379/0", "p@ss!word,1"),
    ("password", "git clone https://bob:{}@git.example/r.git", "hunter2x"),
    ("HTTP credentials", "Authorization: Basic {}", base64.b64encode(b"bob:hunter2x").decode()),
    ("access token", 'curl -H "Authorization: Bearer {}"', fake(40)),
    ("secret key", "api_key: {}", fake(32, HEX)),
    ("secret key", "- API key: `{}`", fake(40)),
    ("secret key", "The API key (prod) is {}.", fake(40)),
    ("secret key", "SECRET_KEY={}", "z!" + fake(20) + "@#%^&*" + fake(20)),
    ("secret key", "SECRET_KEY_BASE={}", fake(64, HEX)),
    ("secret key", "https://x.example/?api_key={}&page=1", fake(32)),
    ("token", "token = '{}'", fake(30)),
    ("token", "  auth_token: {}", fake(30)),
    ("token", "tool --api-key {} run", fake(30)),
    ("secret", "client_secret={}", fake(40)),
]


@pytest.mark.parametrize("label,around,secret", SECRETS, ids=[f"{n}-{case[0]}" for n, case in enumerate(SECRETS)])
def test_secrets_are_found_where_they_are(label: str, around: str, secret: str) -> None:
    text = around.format(secret)
    assert found(text) == [(label, secret)]
    assert found(text, "personal_data") == []
    assert detectors.mask(text, detectors.find(text, BOTH)) == around.format(f"[{label} removed]")


# ---- personal data that is found -------------------------------------------------------------------------------------

PERSONAL_DATA = [
    ("e-mail address", "mail {} please", "bob.smith@corp.example"),
    ("e-mail address", "Ask {}.", "bob+list@mail.corp.co.uk"),
    ("e-mail address", "<mailto:{}?subject=x>", "joe@corp.io"),
    ("e-mail address", "Jürgen: {}", "jürgen@müller.example"),
    ("e-mail address", "写信给{}谢谢", "bob@corp.example"),
    ("e-mail address", '"{}",', "o'neil@corp.ie"),
    ("e-mail address", "{}", "bob@xn--mller-kva.example"),
    ("phone number", "Call {} now", "+49 30 901820"),
    ("phone number", "{}", "+1 (415) 555-2671"),
    ("phone number", "[{}]", "+442079460958"),
    ("phone number", "{}\r\n", "0049 30 901820"),
    ("phone number", "{}", "+41 44 668 18 00"),
    ("phone number", "WhatsApp: {}", "+55 11 91234-5678"),
    ("phone number", "ring {} after lunch", "(415) 555-2671"),
    ("phone number", "{}", "415-555-2671"),
    ("phone number", "{}", "1-415-555-2671"),
    ("phone number", "phone: {}", "415.555.2671"),
    ("phone number", "tel: {}", "4155552671"),
    ("phone number", "| Phone | {} |", "415 555 2671"),
    ("phone number", "Tel. {}", "030 901820"),
    ("phone number", "Tel.: {}", "030/901820-0"),
    ("phone number", "Mobil {}", "0151 23456789"),
    ("phone number", "her mobile number is {}", "07911 123456"),
    ("phone number", "Fax: {}", "06 12 34 56 78"),
    ("credit card number", "card {} exp 01/30", "4111 1111 1111 1111"),
    ("credit card number", "{}", "4012888888881881"),
    ("credit card number", "{}.", "5555-5555-5555-4444"),
    ("credit card number", "| {} |", "2223003122003222"),
    ("credit card number", "{}", "378282246310005"),
    ("credit card number", "{}", "3782 822463 10005"),
    ("credit card number", "{}", "6011111111111117"),
    ("credit card number", "{}", "3530111333300000"),
    ("IBAN", "IBAN {} BIC COBADEFF", "DE89 3704 0044 0532 0130 00"),
    ("IBAN", "{}", "GB29NWBK60161331926819"),
    ("IBAN", "to {}, please", "FR1420041010050500013M02606"),
    ("US social security number", "SSN {}", "536-22-1234"),
    ("US social security number", "his ssn: {}.", "536221234"),
]


@pytest.mark.parametrize(
    "label,around,value", PERSONAL_DATA, ids=[f"{n}-{case[0]}" for n, case in enumerate(PERSONAL_DATA)]
)
def test_personal_data_is_found_where_it_is(label: str, around: str, value: str) -> None:
    text = around.format(value)
    assert found(text) == [(label, value)]
    assert found(text, "secret") == []
    assert detectors.mask(text, detectors.find(text, BOTH)) == around.format(f"[{label} removed]")


# ---- what is neither -------------------------------------------------------------------------------------------------

ORDINARY = [
    # code that handles secrets and holds none
    "password = os.environ['DB_PASSWORD']",
    "password: ${DB_PASSWORD}",
    "api_key = <your-api-key>",
    "api_key: YOUR_API_KEY_1234567890",
    "token = get_token(user)",
    "token = tokens[i]",
    "password = settings.DB2.password",
    "def login(user, password=None, token: str | None = None):",
    "password: Option<String>",
    "const token = await fetchToken();",
    "if (password === confirmPassword) {",
    "secret = secrets.token_hex(16)",
    "password = base64.b16encode(random_bytes[8:])",
    "SET_PASSWORD = 'SetPassword'",
    "pw = getpass.getpass()",
    "password: !vault |",
    'access_token: "{{ vault.access_token }}"',
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "secretKeyRef: {name: db, key: password}",
    "secret: k8s/prod-db-credentials-2024",
    "kubectl create secret generic my-secret --from-file=./x",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "curl -u user:$PASSWORD https://x.example",
    "postgres://user:password@localhost/app",
    "postgres://app:app@localhost/app",
    "http://localhost:8080@x",
    "PASSWORD=xxxxxxxx",
    "password: ********",
    "password: changeme123",
    "csrf_token = 'a1B2c3D4e5F6g7H8i9J0'",
    "next_page_token: a1B2c3D4e5F6g7H8i9J0",
    "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyTestSecret-1a2b3c",
    "password_regex = r'^(?=.*[0-9]).{8,}$'",
    "PASS: test_foo_1 (0.12s)",
    "pass@10 = 0.8751",
    "passed: 100000/100000",
    "pwd=$(pwd)/a1",
    "OLDPWD=/tmp/x12345",
    # prose about secrets
    "The password policy needs 12 characters.",
    "Password reset flow: the user clicks a link, gets mail",
    "The secret is to keep it simple.",
    "Secret: see 1Password",
    "Passwort: siehe Tresor",
    "Das Passwort ist im Tresor.",
    "token: the unit that a model reads",
    "Tokens: 12,345 in / 678 out, max_tokens: 4096, token_count = 1234567890",
    "The password is sha256-hashed.",
    "| password | varchar(255) | not null |",
    "| password | string | yes |",
    "password: 2026-11-30",
    "PEM starts with -----BEGIN RSA PRIVATE KEY----- and ends with -----END RSA PRIVATE KEY-----.",
    "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
    pem("CERTIFICATE"),
    pem("PUBLIC KEY"),
    "ghp_ marks a token of GitHub, xoxb- one of Slack, AKIA an AWS key, sk-ant- one of Anthropic",
    "task-runner-configuration-manager-service and sk-learn-compatible-estimator-interface",
    "hf_hub_download(repo_id), npm_config_registry, pypi-server, glpat-",
    # hashes and ids
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "aws key rotation, see 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    '{file = "x-1.0.whl", hash = "sha256:' + fake(64, HEX) + '"}',
    "    --hash=sha256:" + fake(64, HEX),
    '"integrity": "sha512-' + fake(86, MIXED + "/+") + '=="',
    "mem_01M8NMQFRQEHGZHQHXSA2763V0 memver_01M8NMQFRQEHGZHQHXSA2763V0",
    "123e4567-e89b-12d3-a456-426614174000",
    "![i](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==)",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + fake(43) + " laptop",
    'ETag: W/"5e8-18f3a9d1c20"',
    "AS1234567890 LH400 B-52 X1-234",
    # numbers
    "2026-03-04T14:30:00.123Z, 2026-03-04 14:30:00, 04.03.2026, 2026/11/30 07:37:32",
    "1700000000 1700000000123 1700000000123456789",
    "2345678901 4155552671",
    "v1.2.3-rc.4+build.567, 10.2.3.4, 192.168.1.1:8080, 8.8.8.8",
    "3.14159265358979 0.4111111111111111 1.6180339887498948482",
    "| 2024 | 1,234.56 | 4111 1111 1111 1112 |\n| 415 | 555 | 2671 |\n| 512 256 1024 | 49152 65535 |",
    "ISBN 978-3-16-148410-0, 0-306-40615-2",
    "000-12-3456 666-12-3456 536-22-12345 12-536-22-1234 2-415-555-26710",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14",
    "+1 point, +10 -5 lines, UTC+0200, +02:00, a +123456 b",
    "00:1A:2B:3C:4D:5E 2001:db8::1 fe80::1",
    "phone numbers need 10 digits; call() returns 1234567; tel aviv 2026; phone: 2026-11-30",
    "DE12345678, GB2312, DE00 3704 0044 0532 0130 00, AT 61",
    "lines 120-340, range 100-200-3000, 555-1234, ports 49152-65535",
    # addresses that are none, or nobody's
    "git@github.com:org/repo.git ssh://me@host.example/x https://user:pa.ss@host.example",
    "logo@2x.png lodash@4.17.21 actions/checkout@v4.1.0 react@18.2.0-beta.rc pkg@npm:1.2.3",
    "@app.route('/x'), x = a@b, user@host, a @ b.c",
    "Co-authored-by: Bot <noreply@github.example>, 1+bob@users.noreply.github.com",
    # prose
    "The customer prefers short answers; phone calls only after lunch. Meeting on 12.05. at 10:30 in room 4.12.",
    "Die Kundin möchte kurze Antworten. Rückruf ab 14 Uhr, Zimmer 030, Aktenzeichen 12/2026-345.",
    "Sie wiegt 1.234,56 kg und kostet 1.234.567,89 € (Stand 30.11.2026).",
    "\ufeffA title\r\n\r\nand a text\twith \u2028 all sorts of spaces\u00a0and no last newline",
    "",
]


@pytest.mark.parametrize("text", ORDINARY, ids=range(len(ORDINARY)))
def test_nothing_is_found_in_ordinary_text(text: str) -> None:
    assert found(text) == []
    assert found(text, "secret") == found(text, "personal_data") == []


# ---- overlaps, kinds, masking ----------------------------------------------------------------------------------------


def test_findings_are_in_order_and_each_is_named_by_the_more_specific_rule() -> None:
    key, mail = "AKIA" + fake(16, UPPER), "bob@corp.example"
    text = f"{mail}\npassword = {key}\ntoken: {WEB_TOKEN}\n{mail}\npassword: {mail}\n"
    assert found(text) == [
        ("e-mail address", mail),
        ("AWS access key", key),
        ("JSON Web Token", WEB_TOKEN),
        ("e-mail address", mail),
        ("e-mail address", mail),
    ]


def test_what_one_rule_finds_within_what_another_finds_is_one_finding() -> None:
    key = "AKIA" + fake(16, UPPER)
    assert found(f"password = {key}/more1") == [("AWS access key", f"{key}/more1")]


def test_only_the_kinds_asked_for_are_found() -> None:
    text = "password: hunter2x, bob@corp.example"
    assert found(text, "secret") == [("password", "hunter2x")]
    assert found(text, "personal_data") == [("e-mail address", "bob@corp.example")]
    assert detectors.find(text, []) == []


def test_places_are_counted_in_characters_of_the_text() -> None:
    before = "\ufeff😀 İ ß\r\n"  # what takes several bytes, or another length in lower case
    assert detectors.find(f"{before}password: hunter2x", ["secret"]) == [
        Finding("secret", "password", len(before) + 10, len(before) + 18)
    ]


def test_a_mask_changes_nothing_else() -> None:
    text = "\ufeffa\r\npassword: {}\r\n\tb\u2028{}\r\n\r\n{} c"
    secret, mail, key = "hunter2x", "bob@corp.example", pem("PRIVATE KEY", "\r\n")
    masked = text.format("[password removed]", "[e-mail address removed]", "[private key removed]")
    full = text.format(secret, mail, key)
    assert detectors.mask(full, detectors.find(full, BOTH)) == masked
    assert detectors.mask(masked, []) == masked


def test_a_text_that_holds_placeholders_is_searched_around_them() -> None:
    text = "password: [password removed]\npassword: hunter2x\nmy [e-mail address removed] bob@corp.example"
    assert found(text) == [("password", "hunter2x"), ("e-mail address", "bob@corp.example")]
    assert found("password: [hunter2x removed]") == []
    assert found(f"[{'ghp_' + fake(36)} removed]") == [("GitHub token", "ghp_" + fake(36))]


def test_a_private_key_that_lost_a_line_to_another_mask_is_masked_whole() -> None:
    lines = pem("PRIVATE KEY").split("\n")
    lines[3] = "[e-mail address removed]"
    text = "a\n" + "\n".join(lines) + "\nb"
    assert detectors.mask(text, detectors.find(text, ["secret"])) == "a\n[private key removed]\nb"


def test_what_a_mask_brings_out_is_found_by_the_same_search() -> None:
    # No number begins in a word; where the address is masked, there is no word any more.
    assert found("bob@corp.example+49 30 901820") == [
        ("e-mail address", "bob@corp.example"),
        ("phone number", "+49 30 901820"),
    ]


def test_every_label_makes_a_placeholder_that_is_known_as_one() -> None:
    for label in {rule.label for rule in search._rules(frozenset(BOTH))}:
        assert detectors.find(f"password: [{label} removed]", BOTH) == []
        assert search._PLACEHOLDER.fullmatch(f"[{label} removed]")


PIECES = (
    [around.format(secret) for _, around, secret in SECRETS + PERSONAL_DATA]
    + [secret for _, _, secret in SECRETS + PERSONAL_DATA]
    + ORDINARY
    + ["[password removed]", "[AWS access key removed]", "password: ", 'token="', "://a:", "@", "-----BEGIN ", "key "]
)
SOMETHING = (
    st.sampled_from(PIECES) | st.text(max_size=12) | st.sampled_from(list(" \n.,:;=-+/'\"`|@1a")) | st.just("\r\n")
)


@settings(deadline=None, max_examples=400)
@given(st.lists(SOMETHING, max_size=12).map("".join), st.sampled_from([BOTH, BOTH[:1], BOTH[1:]]))
def test_masked_text_is_left_as_it_is(text: str, kinds: tuple[Kind, ...]) -> None:
    findings = detectors.find(text, kinds)
    assert findings == detectors.find(text, kinds)
    masked = detectors.mask(text, findings)
    assert detectors.find(masked, kinds) == []

    end = 0
    for each in findings:
        assert end <= each.start < each.end <= len(text)
        assert each.kind in kinds
        assert masked.startswith(text[end : each.start] + f"[{each.label} removed]")
        masked = masked.removeprefix(text[end : each.start] + f"[{each.label} removed]")
        end = each.end
    assert masked == text[end:]


# ---- threads, network, libraries -------------------------------------------------------------------------------------

EVERYTHING = "\n".join(PIECES)

FRESH = """
import sys, threading
from memfs.workspace import detectors
loaded = {"detect_secrets", "phonenumbers", "stdnum", "requests"} & sys.modules.keys()
assert not loaded, loaded
text = sys.stdin.read()
found, barrier = [], threading.Barrier(8)
def search():
    barrier.wait()
    found.append(detectors.find(text, ["secret", "personal_data"]))
threads = [threading.Thread(target=search) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and found[0] and all(each == found[0] for each in found)
touched = []
sys.addaudithook(lambda event, _: touched.append(event))
assert detectors.find(text, ["secret", "personal_data"]) == found[0]
assert not {"open", "import"} & set(touched), touched
assert not [event for event in touched if event.partition(".")[0] in {"socket", "subprocess", "os"}], touched
sys.stdout.write(str(len(found[0])))
"""


def test_first_searches_in_many_threads_agree_and_touch_no_file_and_no_network() -> None:
    ended = subprocess.run([sys.executable, "-c", FRESH], input=EVERYTHING, capture_output=True, text=True, timeout=120)
    assert ended.stderr == ""
    assert ended.stdout == str(len(detectors.find(EVERYTHING, BOTH)))


def test_searches_in_threads_at_once_find_the_same() -> None:
    expected = {text: detectors.find(text, BOTH) for text in PIECES}
    wrong: list[str] = []

    def work() -> None:
        wrong.extend(text for text in PIECES if detectors.find(text, BOTH) != expected[text])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.fixture
def rules_anew() -> Iterator[None]:
    search._rules.cache_clear()
    yield
    search._rules.cache_clear()


@pytest.mark.parametrize(
    "kind,module,named",
    [
        ("secret", "detect_secrets.plugins.aws", "detect_secrets"),
        ("personal_data", "stdnum", "stdnum"),
        ("personal_data", "phonenumbers", "phonenumbers"),
    ],
)
def test_without_a_library_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, rules_anew: None, kind: Kind, module: str, named: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, module, None)
        with pytest.raises(InvalidRequest, match=rf"need {named}, which is not installed: .*memfs-agent\[guards\]"):
            detectors.find("text", [kind])
    assert detectors.find("text", [kind]) == []


# ---- texts made to take long -----------------------------------------------------------------------------------------

REPEATED = [
    *[
        "a",
        "0",
        "1 ",
        "1-",
        "a.",
        "a@",
        "a@a.",
        "a@b.co,",
        "bob@corp.example,",
        "bob@corp.example-",
        "\n",
        "ab\n",
        "é",
        "😀",
    ],
    *["://", "://a:", "://a:b@", "eyJ", "=eyJ", "eyJh.", "jfrog", "aws key ", "AKC", "sk-", "xoxa-1-", "ghp_", "npm_"],
    *["AKIA" + fake(16, UPPER), "AKIA" + fake(16, UPPER) + " ", fake(32, HEX) + "-us1 ", fake(88) + "==", "SK", "M."],
    *["password", "password ", "password: ", "password='", "password for ", "password is ", "password: hunter2x;"],
    *[
        "secret = ",
        "token: a",
        "api key ",
        "-pass ",
        "mysql -",
        "curl -",
        "login a ",
        "bearer ",
        "basic ",
        "$argon2id$",
    ],
    *["-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\n" + fake(64), "PuTTY-User-Key-File-2: a\n"],
    *["+1", "+49 30 901820", "(415) 555-2671", "415-555-2671 ", "415-555-2671-", "tel 030 901820 ", "tel ", "0049 "],
    *["4111 1111 1111 1111 ", "4111111111111111-", "DE89 3704 0044 0532 0130 00 ", "AA00 ", "536-22-1234 ", "["],
    "[password removed]",
]


@pytest.mark.timeout(100)  # what takes long takes hours
@pytest.mark.parametrize("piece", REPEATED, ids=range(len(REPEATED)))
def test_no_text_takes_long(piece: str) -> None:
    text = (piece * MAX_CONTENT_BYTES)[:MAX_CONTENT_BYTES]
    masked = detectors.mask(text, detectors.find(text, BOTH))
    assert found(masked) == []


@pytest.mark.timeout(100)  # what takes long takes hours
def test_json_nested_deep_in_what_looks_like_a_web_token_is_none() -> None:
    nested = base64.urlsafe_b64encode(b'{"a":' + b"[" * 75_000).decode().rstrip("=")
    assert found(f"{nested[:99_999]}.eyJh.a") == []
