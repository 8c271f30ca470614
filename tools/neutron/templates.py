"""Writes the databases that servers of tests begin with: `templates.py FOLDER`.

Neutron's is made from its models: its migrations alter constraints, which sqlite cannot. Keystone's holds what
`keystone-manage bootstrap` makes: the administrator `admin` with the password `secret` in the project `admin`.
"""

import os
import sqlite3
import sys
import uuid


KEYSTONE = """
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet-keys
[fernet_receipts]
key_repository = {folder}/fernet-keys
[credential]
key_repository = {folder}/credential-keys
[token]
provider = fernet
expiration = {seconds}
[identity]
# The least that is allowed: tests need no slow hashes.
password_hash_algorithm = bcrypt
password_hash_rounds = 4
[cache]
enabled = false
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
"""


def keystone_configuration(folder, seconds=3600):
    path = os.path.join(folder, "keystone.conf")
    with open(path, "w") as file:
        file.write(KEYSTONE.format(folder=folder, seconds=seconds))
    return path


def manage_keystone(configuration, words):
    from keystone.cmd import manage

    child = os.fork()
    if child == 0:
        sys.argv = ["keystone-manage", "--config-file", configuration, *words]
        try:
            manage.main()
        except SystemExit as end:
            os._exit(end.code or 0)
        finally:
            sys.stderr.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"keystone-manage {words[0]} failed")


def neutron(path):
    from neutron.db.migration.models import head
    from sqlalchemy import create_engine

    engine = create_engine("sqlite:///" + path)
    head.get_metadata().create_all(engine)
    engine.dispose()
    with sqlite3.connect(path) as database:
        # What migration c33da356b165 inserts: without these rows a new group would lack the two rules that every
        # cloud gives it.
        for direction, remote, in_others in (("egress", None, 1), ("ingress", "PARENT", 0)):
            for family in ("IPv4", "IPv6"):
                row = database.execute(
                    "insert into standardattributes (resource_type, description, revision_number) "
                    "values ('securitygroupdefaultrules', 'default', 0)"
                )
                database.execute(
                    "insert into securitygroupdefaultrules (id, standard_attr_id, direction, ethertype, "
                    "remote_group_id, used_in_default_sg, used_in_non_default_sg) values (?, ?, ?, ?, ?, 1, ?)",
                    (str(uuid.uuid4()), row.lastrowid, direction, family, remote, in_others),
                )
    database.close()


def keystone(folder):
    configuration = keystone_configuration(folder)
    manage = lambda *words: manage_keystone(configuration, words)
    manage("db_sync")
    user = str(os.getuid()), str(os.getgid())
    manage("fernet_setup", "--keystone-user", user[0], "--keystone-group", user[1])
    manage(
        "bootstrap",
        "--bootstrap-password=secret",
        "--bootstrap-region-id=RegionOne",
        "--bootstrap-public-url=http://127.0.0.1:1/v3",
    )
    for file in (configuration, os.path.join(folder, "keystone.log")):
        os.remove(file)


if __name__ == "__main__":
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(folder)
    neutron(os.path.join(folder, "neutron.db"))
    keystone(folder)
