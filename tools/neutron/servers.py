"""Serves a real Neutron, and a real Keystone if it is asked to, on ports of this machine.

`servers.py TEMPLATES FOLDER [--keystone TOKEN_SECONDS [--remember]] [--tls CERTIFICATE KEY]` copies what `templates.py` wrote into the
folder unless it is there, prints `READY {"neutron": PORT, "keystone": PORT}` and serves until it is killed. With Keystone no call to Neutron
is answered without a token, and each is asked about unless Neutron is to remember which counted. One thread per server, so that sqlite is never locked.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import sqlite3
import ssl
import sys
import uuid
from socketserver import TCPServer
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from templates import keystone_configuration

NEUTRON = """
[DEFAULT]
log_file = {folder}/neutron.log
auth_strategy = {strategy}
core_plugin = ml2
service_plugins =
transport_url = fake://
state_path = {folder}
api_paste_config = {prefix}/etc/neutron/api-paste.ini
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[database]
connection = sqlite:///{folder}/neutron.db
[oslo_concurrency]
lock_path = {folder}/lock
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
[ml2]
type_drivers = local
tenant_network_types = local
mechanism_drivers =
extension_drivers = port_security,tag_ports_during_bulk_creation
[quotas]
quota_security_group = -1
quota_security_group_rule = -1
quota_port = -1
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:{keystone}/v3
www_authenticate_uri = http://127.0.0.1:{keystone}/v3
username = admin
password = secret
project_name = admin
user_domain_id = default
project_domain_id = default
interface = public
token_cache_time = {remembered}
"""

class Handler(WSGIRequestHandler):
    # A client that stops in the middle of a request must not stop all others for long.
    timeout = 5

    def log_message(self, *_):
        pass


class Server(WSGIServer):
    request_queue_size = 128

    def server_bind(self):
        # Asking for the name of this machine, as an HTTP server does, may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()
        self.setup_environ()

    def handle_error(self, *_):
        pass


def neutron_application(folder, keystone, remember):
    configuration = os.path.join(folder, "neutron.conf")
    strategy = "keystone" if keystone else "noauth"
    with open(configuration, "w") as file:
        file.write(
            NEUTRON.format(
                folder=folder,
                prefix=sys.prefix,
                strategy=strategy,
                keystone=keystone or 1,
                remembered=300 if remember else -1,
            )
        )
    os.environ["OS_NEUTRON_CONFIG_DIR"] = folder
    os.environ["OS_NEUTRON_CONFIG_FILES"] = "neutron.conf"
    sys.argv = ["neutron-api"]
    from neutron.wsgi.api import application

    return application


def keystone_application(folder, seconds):
    configuration = keystone_configuration(folder, seconds)
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = configuration
    sys.argv = ["keystone"]
    from keystone.wsgi.api import application

    return application


def name_endpoints(folder, keystone, neutron):
    """Puts into the catalogue where both are."""
    with sqlite3.connect(os.path.join(folder, "keystone.db")) as database:
        url = f"http://127.0.0.1:{keystone}/v3"
        database.execute("update endpoint set url = ? where url like '%/v3'", (url,))
        database.execute("delete from endpoint where service_id = 'neutron'")
        database.execute("delete from service where id = 'neutron'")
        database.execute("insert into service (id, type, enabled, extra) values ('neutron', 'network', 1, '{}')")
        database.execute("insert or ignore into region (id, description, extra) values ('Elsewhere', '', '{}')")
        # Nobody listens where a client must not go.
        for region, interface, port in (
            ("Elsewhere", "public", 1),
            ("RegionOne", "public", neutron),
            ("RegionOne", "internal", neutron),
            ("RegionOne", "admin", 1),
        ):
            database.execute(
                "insert into endpoint (id, interface, service_id, url, extra, enabled, region_id) "
                "values (?, ?, 'neutron', ?, '{}', 1, ?)",
                (uuid.uuid4().hex, interface, f"http://127.0.0.1:{port}", region),
            )
    database.close()


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("templates")
    parser.add_argument("folder")
    parser.add_argument("--keystone", type=int, metavar="TOKEN_SECONDS")
    parser.add_argument("--remember", action="store_true", help="ask about each token once")
    parser.add_argument("--port", type=int, default=0, help="that of Neutron; any by default")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="what Neutron shows")
    arguments = parser.parse_args()
    folder = os.path.abspath(arguments.folder)
    if not os.path.exists(os.path.join(folder, "neutron.db")):
        shutil.copytree(arguments.templates, folder, dirs_exist_ok=True)
    neutron = Server(("127.0.0.1", arguments.port), Handler)
    ports = {"neutron": neutron.server_port}
    if arguments.tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*arguments.tls)
        neutron.socket = context.wrap_socket(neutron.socket, server_side=True)
    ready, told = os.pipe()
    if arguments.keystone:
        keystone = Server(("127.0.0.1", 0), Handler)
        ports["keystone"] = keystone.server_port
        name_endpoints(folder, keystone.server_port, neutron.server_port)
        if os.fork() == 0:
            end_with_parent()
            neutron.server_close()
            keystone.set_app(keystone_application(folder, arguments.keystone))
            os.write(told, b"1")
            keystone.serve_forever()
        keystone.server_close()
    neutron.set_app(neutron_application(folder, ports.get("keystone"), arguments.remember))
    os.close(told)
    if arguments.keystone and not os.read(ready, 1):
        sys.exit("no Keystone")
    print("READY", json.dumps(ports), flush=True)
    neutron.serve_forever()


if __name__ == "__main__":
    main()
