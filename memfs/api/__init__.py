"""The HTTP API: CONTRACT.md 2 on FastAPI, so that official clients take it for the real one."""
