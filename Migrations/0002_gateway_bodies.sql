-- Bodies that wait at the Web Push gateway belong to the subscription, not to its row in registrations, which may end and
-- come back. What older programs keep has no subscription yet: housekeeping fills it in.
ALTER TABLE gateway_messages ADD COLUMN subscription $bytes;
ALTER TABLE gateway_messages ADD COLUMN sender $int;  -- who sent it: of a key, or of the network that it came from
ALTER TABLE gateway_messages ADD COLUMN topic $bytes; -- keyed hash of its topic
ALTER TABLE gateway_messages ADD COLUMN number $int;  -- grows with each of a subscription

CREATE UNIQUE INDEX gateway_messages_by_subscription ON gateway_messages (subscription, number);

-- Web Push gateway: messages of this urgency or less show nothing on an iPhone: 1 very low, 2 low, 3 normal.
ALTER TABLE registrations ADD COLUMN silent_urgency $int;
