"""What PyNaCl seals opens here, and what is sealed here PyNaCl opens."""

import base64
import hashlib
import json
import subprocess
import sys
import tempfile

import nacl.exceptions
import nacl.public
import nacl.secret
import nacl.utils

TEXTS = ["", "x", '{"type":"test","realm_name":"Zürich 🚀"}', "long " * 800]


def encode(data):
    return base64.b64encode(data).decode()


def token_id(token):
    return encode(hashlib.sha256(token.encode()).digest()[:8])


def make():
    for text in TEXTS:
        private = nacl.public.PrivateKey.generate()
        yield {
            "kind": "sealed_box", "private_key": encode(bytes(private)), "plaintext": text,
            "sealed": encode(nacl.public.SealedBox(private.public_key).encrypt(text.encode())),
        }
        key = nacl.utils.random(32)
        yield {
            "kind": "secret_box", "push_key": encode(b"\x31" + key), "plaintext": text,
            "sealed": encode(nacl.secret.SecretBox(key).encrypt(text.encode())),
        }
        yield {"kind": "token_id", "token": text, "token_id": token_id(text)}


def opens(vector):
    if vector["kind"] == "token_id":
        return token_id(vector["token"]) == vector["token_id"]
    sealed = base64.b64decode(vector["sealed"], validate=True)
    if vector["kind"] == "sealed_box":
        private = nacl.public.PrivateKey(base64.b64decode(vector["private_key"], validate=True))
        opened = nacl.public.SealedBox(private).decrypt(sealed)
    else:
        key = base64.b64decode(vector["push_key"], validate=True)
        assert key[0] == 0x31
        opened = nacl.secret.SecretBox(key[1:]).decrypt(sealed)
    return opened.decode() == vector["plaintext"]


def check(binary, vectors):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(vectors, file)
        file.flush()
        return subprocess.run([binary, "vectors", "--check", file.name], capture_output=True).returncode == 0


def main(binary):
    theirs = list(make())
    assert check(binary, theirs), "what PyNaCl sealed does not open here"
    print(f"ok  {len(theirs)} vectors of PyNaCl open here")

    broken = dict(theirs[0], plaintext="something else")
    assert not check(binary, [broken]), "a wrong vector passed"
    print("ok  a wrong vector is noticed")

    ours = json.loads(subprocess.run([binary, "vectors"], capture_output=True, check=True).stdout)
    assert ours and all(opens(vector) for vector in ours), "what is sealed here does not open in PyNaCl"
    print(f"ok  {len(ours)} vectors of ours open in PyNaCl")


if __name__ == "__main__":
    main(sys.argv[1])
