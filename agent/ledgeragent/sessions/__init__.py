"""Sessions beyond one process: kept in a store, so that any replica of a service can serve the next turn.

`RedisStore` lives in `ledgeragent.sessions.in_redis`, which needs the extra `redis`.
"""

from ledgeragent.sessions.store import Change, SessionStore, Stored
from ledgeragent.sessions.turns import Sessions, Turn

__all__ = ["Change", "SessionStore", "Sessions", "Stored", "Turn"]
