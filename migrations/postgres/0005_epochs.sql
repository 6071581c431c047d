-- The lives of this store: the first begins with its schema, a further one with each restore from a
-- backup (`stockhold restore-mark`). What began before the newest restore may have been done outside
-- without this store knowing.

CREATE TABLE epochs (
    no       BIGINT  NOT NULL PRIMARY KEY,
    -- Names this life of this store, for what is kept about it elsewhere.
    id       TEXT COLLATE "C" NOT NULL UNIQUE,
    began_at BIGINT  NOT NULL
);
