"""The connection between a kernel and the browser, with each message sent at once.

By default TCP holds a small message back until the one before it is acknowledged, which a browser that has nothing to
say does after 40 ms (Nagle's algorithm and delayed acknowledgements, RFC 896 and RFC 1122). A kernel says that it is
busy before it sends an explorer's picture, so each picture came 40 ms late.
"""

from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """Jupyter's own connection with TCP_NODELAY set."""

    def connect(self) -> Any:
        """Connect as usual, without the delay."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()
