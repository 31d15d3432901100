-- The processes that serve with this database. Each touches its row every ten seconds and removes it when it stops;
-- one that was killed leaves a row that nobody touches.
CREATE TABLE nodes (
  id $text PRIMARY KEY,                       -- UUID of the process
  hostname $text NOT NULL,                    -- of its machine
  version $text NOT NULL,                     -- of the program
  started_at $int NOT NULL,
  seen_at $int NOT NULL                       -- by that machine's clock
) $strict_by_key;
