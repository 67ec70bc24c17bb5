"""What a service manager is told: that the mounts are there, and that they are going (sd_notify(3))."""

import logging
import os
import socket

log = logging.getLogger(__name__)


class ServiceManager:
    """Whoever started us and wants to know: systemd, for a unit with ``Type=notify``. Else nobody is told."""

    def __init__(self, address: str | None) -> None:
        """``address`` is a socket's path; one that begins with ``@`` is abstract."""
        self._address = address

    @classmethod
    def of_environment(cls) -> "ServiceManager":
        """The one that NOTIFY_SOCKET names. It is taken away: what we start has nothing to tell."""
        return cls(os.environ.pop("NOTIFY_SOCKET", None))

    def tell(self, *assignments: str) -> None:
        """Send ``NAME=value`` lines. Never raises: mounts serve, whoever listens."""
        if not self._address:
            return
        name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as telling:
                telling.settimeout(5)  # a manager that reads nothing any more must not hold us
                telling.sendto("\n".join(assignments).encode(), name)
        except OSError as error:
            log.warning("the service manager could not be told socket=%s reason=%s", self._address, error)
