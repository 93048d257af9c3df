-- Your own table, with one column for this: whether Encke has the row.
CREATE TABLE notifications (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account text NOT NULL,
  message text NOT NULL,
  sent    boolean NOT NULL DEFAULT false
);
CREATE INDEX notifications_unsent ON notifications (id) WHERE NOT sent;

-- Wakes the backend when the transaction that inserts commits, and not before.
CREATE FUNCTION wake_notifications() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NOTIFY notifications;
  RETURN NULL;
END $$;
CREATE TRIGGER wake AFTER INSERT ON notifications
  FOR EACH STATEMENT EXECUTE FUNCTION wake_notifications();
