"""The servers, users and phones that the checked service knows."""

import json
import secrets
import uuid

from adapters.push_bouncer import TOKEN
from app import Caller
from conformance import phones
from conformance.nextcloud import key, pem
from conformance.phones import basic, encode
from worlds import nextcloud_proxy, webpush_gateway

# The public key of an app (RFC 8291, section 5).
POINT = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"


class World:
    """The personas of each description: values by the names of parameters and members. What a persona has under the name
    of an operation replaces the rest there."""

    def __init__(self, service, simulator, admin_token):
        self.service, self.simulator, self.url = service, simulator, service.url
        self.host = Caller(f"{self.url}/backend/v1", f"Bearer {TOKEN}")
        self.server = self.register("chat.example.org")
        self.realm, self.keys = self.new_realm(1, 3)
        self.leaving = basic(*self.register("leaving.example.org"))
        self.password, *self.passing = (basic("user3", self.app_password(3)) for _ in range(3))
        # Credentials that were right once keep working, however many wrong ones come from this address.
        Caller(f"{self.url}/api/v1/remotes", self.leaving)("GET", "/server/analytics/status")
        for authorization in self.password, *self.passing, basic("user1", self.keys[1]):
            Caller(self.url, authorization)("GET", "/ocs/v2.php/cloud/user", status=412)
        self.personas = {
            "Bouncer": self.bouncer(), "Chat": self.phones(1, self.keys[1]), "Backend": self.backend(),
            "NextcloudProxy": self.proxy(), "NextcloudLogin": self.login(), "NextcloudOCS": self.ocs(),
            "WebPush": [{}], "WebPushGateway": self.gateway(),
            "Operator": [{"id": 1, "page": 1, "q": "chat.example.org", "token": admin_token}],
        }

    def register(self, hostname):
        credentials = str(uuid.uuid4()), secrets.token_hex(32)
        Caller(f"{self.url}/api/v1/remotes")("POST", "/server/register", form={
            "zulip_org_id": credentials[0], "zulip_org_key": credentials[1], "hostname": hostname,
            "contact_email": "admin@example.org",
        })
        return credentials

    def bouncer(self):
        """A phone for each provider, with an old app beside the new one."""
        call = Caller(f"{self.url}/api/v1/remotes", basic(*self.server))
        realm = phones.realm(id=1)
        count = {
            "id": 1, "realm": 1, "property": "messages_sent:is_bot:hour", "subgroup": None, "end_time": 1700000000,
            "value": 5,
        }
        row = {
            "id": 1, "realm": 1, "event_type": 101, "event_time": 1700000000, "backfilled": False, "extra_data": {},
        }
        upload = phones.upload(
            realm, realm_counts=json.dumps([count]), installation_counts=json.dumps([count]), realmauditlog_rows=json.dumps([row]))
        call("POST", "/server/analytics", form=upload)
        shared = {
            # The ids of rows must rise, so these rows cannot be uploaded again.
            **upload, "realm_counts": "[]", "installation_counts": "[]", "realmauditlog_rows": "[]",
            "zulip_org_id": self.server[0], "zulip_org_key": self.server[1], "new_org_key": self.server[1],
            "hostname": "chat.example.org", "contact_email": "admin@example.org", "access_token": "abc",
            "user": json.dumps({"uuid": str(uuid.uuid4()), "email": "a@example.org", "full_name": "A"}),
            "realm": json.dumps(realm), "base_payload": {"realm_name": "Chat"}, "gcm_payload": {"event": "message"},
            "gcm_options": {"priority": "high"}, "apns_payload": {"alert": "Hello", "custom": {"zulip": {}}},
            "POST /push/unregister/all": {"user_id": 11, "user_uuid": str(uuid.uuid4())},
        }
        personas = []
        for kind in ("apns", "fcm"):
            phone = self.service.phone(kind, secrets.token_hex(32))
            registration = {"realm_uuid": realm["uuid"], **phone.token_fields}
            del registration["token_kind"]
            call("POST", "/push/e2ee/register", form=registration)
            legacy = {
                "user_id": 10, "user_uuid": str(uuid.uuid4()), "token_kind": phone.legacy_kind, "ios_app_id": phone.world.running.app_id,
                "token": secrets.token_hex(32),
            }
            spare = {"token": secrets.token_hex(32)}
            for fields in legacy, legacy | spare:
                call("POST", "/push/register", form=fields)
            item = {
                **phones.item(phone.token_id, kind, {}), "payload": {"push_key_id": 1, "encrypted_data": "AAAA"},
            }
            personas.append({
                **shared, **registration, **legacy, "android_devices": [legacy["token"]],
                "apple_devices": [legacy["token"], "AB"], "POST /push/e2ee/notify": {"push_requests": [item]},
                "POST /push/unregister": spare,
            })
        return personas

    def new_realm(self, *users):
        """A realm and the keys of its users."""
        realm = str(uuid.uuid4())
        self.host("PUT", f"/realms/{realm}", body={"name": "Chat", "url": "https://chat.example.org"}, status=201)
        keys = {}
        for user in users:
            body = {"email": f"{user}@example.org", "username": f"user{user}"}
            keys[user] = self.host("PUT", f"/realms/{realm}/users/{user}", body=body, status=201)["api_key"]
        return realm, keys

    def phones(self, user, key):
        """A phone for each provider. It has the same values when it registers again."""
        call = Caller(f"{self.url}/api/v1", basic(f"{user}@example.org", key))
        personas = []
        for kind in ("apns", "fcm"):
            phone = self.service.phone(kind)
            id = call("POST", "/register_client_device")["device_id"]
            call("POST", "/mobile_push/register", form={"device_id": id, **phone.key_fields, **phone.token_fields})
            old = secrets.token_hex(32)
            path = "/users/me/apns_device_token" if kind == "apns" else "/users/me/android_gcm_reg_id"
            call("POST", path, form={"token": old, "appid": self.service.app_id})
            queue, spare = call("POST", "/register"), call("POST", "/register")
            device = call("POST", "/register_client_device")
            personas.append({
                "device_id": id, "token": old, "appid": self.service.app_id, "queue_id": queue["queue_id"],
                "last_event_id": queue["last_event_id"], "DELETE /events": {"queue_id": spare["queue_id"]},
                "POST /remove_client_device": {"device_id": device["device_id"]},
                "event_types": '["device"]', "fetch_event_types": "null", **phone.key_fields, **phone.token_fields,
            })
        return personas

    def backend(self):
        """A realm with two users, one of whom has phones, and a realm that does not exist yet, with a user to be removed."""
        realm, keys = self.new_realm(4, 5)
        self.phones(4, keys[4])
        password = self.host("POST", f"/realms/{realm}/users/5/app-passwords", body={"name": "Talk"}, status=201)
        new = {"realm_uuid": str(uuid.uuid4()), "user_id": 6}
        shared = {"user_uuid": None, "DELETE /realms/{realm_uuid}/users/{user_id}": new}
        return [
            {
                **shared, "realm_uuid": realm, "user_id": 4, "email": "4@example.org", "username": "user4",
                "api_key": keys[4], "name": "Chat", "url": "https://chat.example.org", "zulip": {"type": "test"},
                "legacy": {"apns_payload": {"alert": "Hello"}},
            },
            {
                **shared, "realm_uuid": realm, "user_id": 5, "email": "5@example.org", "username": "user5",
                "api_key": None, "name": "Talk", "app_password_id": password["id"],
                "token": self.flow()["login"].rpartition("/")[2],
                "nextcloud": {"nid": 5, "app": "spreed", "subject": "Hello"},
            },
            {
                **shared, **new, "email": "6@example.org", "username": "user6", "name": "New",
                "url": "https://new.example.org", "require_e2ee_push_notifications": None,
            },
        ]

    def app_password(self, user):
        path = f"/realms/{self.realm}/users/{user}/app-passwords"
        return self.host("POST", path, body={"name": "Talk"}, status=201)["password"]

    def flow(self):
        return Caller(self.url)("POST", "/login/v2")

    def proxy(self):
        """A phone that stays and one that goes."""
        phone, other = self.phone(), self.phone()
        return [{**phone, "DELETE /devices": other}, other]

    @staticmethod
    def phone():
        """A device by its parameters, and a notification that its server could send."""
        phone = nextcloud_proxy.Phone("talk_android")
        return {
            **phone.form(), "User-Agent": phone.agent, "notifications": [phone.entry()], "notifications[0]": json.dumps(phone.entry()),
        }

    def login(self):
        """An app whose login has been approved, and one that waits."""
        granted, waiting = self.flow(), self.flow()
        self.host(
            "POST", f"/realms/{self.realm}/users/3/login-flows", body={"token": granted["login"].rpartition("/")[2]})
        return [{"token": granted["poll"]["token"]},
                {"token": waiting["login"].rpartition("/")[2], "login": "user3", "key": self.keys[3]}]

    def ocs(self):
        """A phone that makes each call twice, since the second call is answered otherwise."""
        vapid = Caller(f"{self.url}/api/v1/zulip-services")("GET", "/webpush/vapid")["vapid"]
        path = f"/realms/{self.realm}/users/3/notifications"
        self.host("POST", path, body={"nextcloud": {"nid": 5, "app": "spreed", "subject": "Hello"}})
        phone = {
            "pushTokenHash": "ab" * 64, "devicePublicKey": pem(key("device").public_key()), "proxyServer": self.url,
            "endpoint": self.simulator.subscribe(vapid).endpoint, "uaPublicKey": POINT, "auth": encode(bytes(16))[:22], "appTypes": "all",
            "activationToken": str(uuid.uuid4()), "userId": "user3", "nid": 5, "ids": [5], "format": "json", "OCS-APIRequest": "true",
        }
        return [phone, phone]

    def gateway(self):
        """An app for Android, in clear and sealed, and one for iOS, which all end and renew one subscription; another app has
        a body to fetch, and a sender with a key."""
        gateway = webpush_gateway.World(self.service, self.simulator)
        self.managed, self.reached = gateway.android, gateway.android2
        gateway.subscribe(self.managed)
        gateway.subscribe(self.reached, sender="sender")
        gateway.post(self.reached, length=4096)
        gateway.arrived(1)
        self.authorization = gateway.make_vapid("sender")
        shared = {
            "TTL": "60", "Urgency": "low", "Topic": "a", "Content-Encoding": "aes128gcm", "body": "x" * 200, "id": self.managed.id,
            "message": self.reached.kept, "endpoint": self.reached.endpoint.rpartition("/")[2],
            # The one that waits stays.
            "DELETE /push/{endpoint}/{message}": {"message": "A" * 22},
        }
        return [shared | registration for registration in (
            gateway.registration(self.managed), gateway.make_sealed("android"), gateway.registration(gateway.ios, sender="sender"))]

    def substitutes(self, name):
        """Other credentials for some paths: the calls there end the credentials, or need those of an account."""
        if name == "Bouncer":
            return {"/server/deactivate": self.leaving}
        if name == "WebPushGateway":
            return {
                "/push/{endpoint}": self.authorization, "/push/{endpoint}/{message}": self.authorization,
                "/messages/{message}": f"Bearer {self.reached.secret}",
            }
        if name == "NextcloudOCS":
            return {"/core/apppassword": self.passing.pop(), "/core/getapppassword": basic("user1", self.keys[1])}
        return {}
