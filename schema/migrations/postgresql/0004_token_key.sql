-- The key that tokens are hashed under, where the settings name none. All nodes must hash alike, so it is here; whoever
-- wants no copy of the database to take it along sets BOARD_SECRET on every node, and then this table stays empty.
CREATE TABLE token_key (
    id integer PRIMARY KEY CHECK (id = 1),
    key bytea NOT NULL
);
