"""The vectors of section 8, with which others can check their implementations, too."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from conformance.nextcloud import PADDINGS, pem, php, sha512_hex, sign, verifies, verifies_digest

RULES = pytest.mark.rules
VECTORS = json.loads((Path(__file__).parents[4] / "Wires/NextcloudTests/vectors.json").read_text())


def private(name):
    return serialization.load_pem_private_key(VECTORS[f"{name}PrivateKey"].encode(), None)


@RULES("vectors", "push-token-hash", "identifier-text", "identifier-is-digest", "subject-encryption")
def test_an_independent_library_agrees_with_the_vectors():
    user, other = VECTORS["userPublicKey"], VECTORS["otherUserPublicKey"]
    assert pem(private("user").public_key()) == user and pem(private("device").public_key()) == VECTORS["devicePublicKey"]
    assert len(VECTORS["devices"]) == 3 and len(VECTORS["notifications"]) == 7
    for device in VECTORS["devices"]:
        preimage, digest = device["preimage"].encode(), base64.b64decode(device["deviceIdentifier"], validate=True)
        assert device["deviceIdentifierSignature"] == sign(private("user"), preimage)
        assert verifies_digest(user, device["deviceIdentifierSignature"], digest)
        assert verifies_digest(other, device["otherUserSignatureOverSamePreimage"], digest)
        assert not verifies_digest(user, device["WRONG_signatureOverBase64Identifier_2021regression"], digest)
        assert device["pushTokenHash"] == sha512_hex(device["pushToken"])
    for vector in VECTORS["notifications"].values():
        entry = json.loads(vector["envelopeJson"])
        subject = base64.b64decode(entry["subject"], validate=True)
        assert private("device").decrypt(subject, PADDINGS[vector["padding"]]).decode() == vector["plaintext"]
        assert verifies(user, entry["signature"], subject) and not verifies(user, vector["WRONG_signatureOverBase64Subject"], subject)
        assert php(entry) == vector["envelopeJson"]


@RULES("vectors", "register-device", "check-signature", "entry-unverified", "notifications-body")
def test_a_proxy_takes_the_vectors_and_refuses_those_that_are_wrong(world):
    def register(device, body=None, **changes):
        form = {"pushToken": device["pushToken"], "deviceIdentifier": device["deviceIdentifier"],
                "deviceIdentifierSignature": device["deviceIdentifierSignature"], "userPublicKey": VECTORS["userPublicKey"], **changes}
        return world.send({"request": "POST /devices", "as": "talk_ios" if "ios" in device["name"] else "talk_android", **({"body": body} if body else {"form": form})}).status

    world.expect_more(token for device in VECTORS["devices"] for token in device["pushToken"].split(" "))
    android, *_ = VECTORS["devices"]
    before = len(world.arrived(0))
    for device in VECTORS["devices"]:
        assert register(device, deviceIdentifierSignature=device["WRONG_signatureOverBase64Identifier_2021regression"]) == 400
        assert register(device, deviceIdentifierSignature=device["otherUserSignatureOverSamePreimage"]) == 400
        assert register(device) == 200
    assert register(android, body=VECTORS["registerFormBody_android"]) == 200

    answer = world.send({"request": "POST /notifications", "body": VECTORS["notificationsFormBody_chat_voip_deleteAll"]})
    assert (answer.status, answer.body) == (200, {"unknown": [], "failed": 0})
    whole = [VECTORS["notifications"][name]["envelopeJson"] for name in ("chat-oaep", "call-voip", "delete-all")]
    sent = {name: json.loads(vector["envelopeJson"]) for name, vector in VECTORS["notifications"].items() if vector["envelopeJson"] not in whole}
    answer = world.notify(*sent.values())
    assert (answer.status, answer.body) == (200, {"unknown": [], "failed": 0})
    wrong = [{**json.loads(vector["envelopeJson"]), "signature": vector["WRONG_signatureOverBase64Subject"]} for vector in VECTORS["notifications"].values()]
    answer = world.notify(*wrong)
    assert (answer.status, answer.body) == (200, {"unknown": [], "failed": len(wrong)})

    arrived = world.arrived(len(VECTORS["notifications"]))[before:]
    got = [arrival["payload"].get("message", {}).get("data") or arrival["payload"] for arrival in arrived]
    assert sorted(item["subject"] for item in got) == sorted(json.loads(vector["envelopeJson"])["subject"] for vector in VECTORS["notifications"].values())
