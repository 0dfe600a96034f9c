"""The environment variables that a foreign launcher sets for a rank."""
import random
import socket


def free_port():
    """A port below the range that Linux assigns to sockets without a port, which concurrent tests use."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def words(rank, world, port):
    return {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
