-- The coordinator keeps every deadline in memory; no query reads this column.
ALTER TABLE fleet_jobs DROP COLUMN due;
