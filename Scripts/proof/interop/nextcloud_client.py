"""nc_py_api, an independent client for Nextcloud, at the built-in Nextcloud server side.

Adds an account by login flow v2, once approved by the host application and once by a person who fills in the page's forms,
reads the capabilities and the user, and lists, reads, looks up and deletes notifications, all with the calls of the package;
and by hand what it has no calls for.
"""

import html
import re
import urllib.error
import urllib.parse
import urllib.request
import uuid
import warnings

import nc_py_api
from nc_py_api import Nextcloud, NextcloudException, NextcloudExceptionNotFound

from app import Mismatch, check
from conformance.limits import TIMEOUT

# The package announces that its next version has no calls without async. What those send is the same.
warnings.simplefilter("ignore", DeprecationWarning)
AGENT = "Mozilla/5.0 (X11; Linux) nc_py_api <interop>"


def browse(url, form=None):
    """What a browser without scripts sees: the page's text and HTTP's status."""
    data = urllib.parse.urlencode(form).encode() if form is not None else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=TIMEOUT) as response:
            return response.read().decode(), response.status
    except urllib.error.HTTPError as error:
        return error.read().decode(), error.code


def refused(what, kind, call):
    try:
        call()
    except kind as error:
        check(what, True)
        return error
    raise Mismatch(f"{what}: was not refused")


def add_account(base, let_in):
    client = Nextcloud(nextcloud_url=base, nc_auth_user="", nc_auth_pass="")
    flow = client.loginflow_v2.init(user_agent=AGENT)
    check("login flow: addresses of this service", flow.login.startswith(base) and flow.endpoint.startswith(base), flow)
    let_in(flow.login)
    return client, client.loginflow_v2.poll(flow.token, timeout=TIMEOUT)


def person(user):
    """A person who fills in what the page asks for."""

    def let_in(url):
        page, status = browse(url)
        check("page: names the app, as text", status == 200 and html.escape(AGENT) in page and AGENT not in page, page)
        page, status = browse(url, {"login": user.login, "key": "x" * 32})
        check("page: a wrong key is no key", status == 403 and 'role="alert"' in page, status)
        page, status = browse(url, {"login": user.email, "key": user.key})
        proof = re.search(r'name="proof" value="([^"]+)"', page)
        check("page: asks whether the app may", status == 200 and proof is not None, page)
        page, status = browse(url, {"proof": html.unescape(proof[1])})
        check("page: says that it may be closed", status == 200 and "close this page" in page, page)
        check("page: is shown once", browse(url)[1] == 404)

    return let_in


def main(service):
    print(f"     nc_py_api {nc_py_api.__version__}")
    base, user = service.url, service.add_user(f"interop-{uuid.uuid4().hex[:8]}")

    def notify(part):
        answer = service.notify(user, {"nextcloud": part})
        check("the host application sends", answer.status == 200, answer)

    other, _ = add_account(base, person(user))
    client, account = add_account(base, lambda url: service.grant_login(user, url.rsplit("/", 1)[1]))
    check("login flow: the account", (account.server, account.login_name) == (base, user.login), account)
    check("login flow: an app password of its own", len(account.app_password) == 72, len(account.app_password))

    check("capabilities: notifications", "exists" in client.capabilities["notifications"]["ocs-endpoints"])
    check("capabilities: push", "devices" in client.capabilities["notifications"]["push"])
    check("capabilities: a version", client.srv_version["major"] >= 32, client.srv_version)
    check("user: id", client.user == user.login, client.user)
    told = client.users.get_user()
    check("user: name, email, enabled", (told.display_name, told.email, told.enabled) == (user.login, user.email, True), told)
    check("user: no date or list is missing", (told.last_login.year, told.groups, told.subadmin) == (1970, [], []), told)

    for nid in (7, 8, 9):
        notify({"nid": nid, "app": "spreed", "subject": f"Subject {nid} </ü>", "message": f"Message\n{nid}",
                "type": "chat", "id": f"room{nid}"})
    api = client.notifications
    check("notifications: offered", api.available)
    check("notifications: list, the newest first", [one.notification_id for one in api.get_all()] == [9, 8, 7])
    one = api.get_one(8)
    told = (one.app_name, one.user_id, one.subject, one.message, one.object_type, one.object_id, one.link, one.icon)
    check("notifications: one", told == ("spreed", user.login, "Subject 8 </ü>", "Message\n8", "chat", "room8", "", ""), told)
    check("notifications: by object", api.by_object_id("room7").notification_id == 7)
    check("notifications: exist", sorted(api.exists([7, 9, 1000])) == [7, 9] and api.exists([]) == [])
    api.delete(8)
    error = refused("notifications: a deleted one is gone", NextcloudException, lambda: api.get_one(8))
    check("notifications: 404", error.status_code == 404, error)
    check("notifications: deleted for the other app too", other.notifications.exists([7, 8, 9]) == [7, 9])
    notify({"delete_nids": [7]})
    check("notifications: taken back", [one.notification_id for one in api.get_all()] == [9])
    other.notifications.delete_all()
    check("notifications: all deleted", api.get_all() == [])

    refused("an endpoint that is not there", NextcloudExceptionNotFound,
            lambda: client.ocs("GET", "/ocs/v1.php/apps/nothing"))
    by_key = Nextcloud(nextcloud_url=base, nc_auth_user=user.login, nc_auth_pass=user.key)
    password = by_key.ocs("GET", "/ocs/v2.php/core/getapppassword")["apppassword"]
    made = Nextcloud(nextcloud_url=base, nc_auth_user=user.login, nc_auth_pass=password)
    check("app password: made with the account's key", made.user == user.login)
    error = refused("app password: makes no other", NextcloudException,
                    lambda: made.ocs("GET", "/ocs/v2.php/core/getapppassword"))
    check("app password: 403", error.status_code == 403, error)
    made.ocs("DELETE", "/ocs/v2.php/core/apppassword")
    error = refused("app password: ended", NextcloudException, made.update_server_info)
    check("app password: 401", error.status_code == 401, error)
    check("app password: the others go on", client.users.get_user().user_id == user.login)
