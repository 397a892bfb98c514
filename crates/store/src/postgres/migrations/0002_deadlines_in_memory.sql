-- Whoever has the database has every deadline in memory; nobody asks for them here.
ALTER TABLE fleet_jobs DROP COLUMN due;
