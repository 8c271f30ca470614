//! Ports, and their groups under the eyes of others.

use picket_neutron::client::{Error, Filter, Neutron as Client, Tagged};
use picket_testing::neutron::Neutron;
use serde_json::json;
use smol_str::SmolStr;

use crate::support::{client, options, set, wait};

async fn group(neutron: &Client, name: &str) -> SmolStr {
    neutron.create_security_group(name, "").await.unwrap().id
}

#[test]
fn ports_are_listed_with_what_picket_needs() {
    let server = Neutron::start();
    let (neutron, _) = client(&server.endpoint(), options());
    let network = server.create_network(&["10.0.0.0/24", "fd00::/64"]);
    let other = server.create_network(&["10.0.1.0/24"]);
    wait(async {
        let web = group(&neutron, "web").await;
        let port = json!({
            "network_id": network,
            "name": "x/web",
            "description": "why",
            "device_owner": "compute:kuryr",
            "fixed_ips": [{"ip_address": "10.0.0.7"}, {"ip_address": "fd00::7"}],
            "security_groups": [web],
            "binding:vnic_type": "direct",
        });
        server.ask("POST", "ports", &json!({"port": port}));
        let open = server.create_port(&other, "open");
        let body = json!({"port": {"port_security_enabled": false}});
        server.ask("PUT", &format!("ports/{open}"), &body);

        let on = Filter {
            network: Some(network.as_str().into()),
            ..Filter::default()
        };
        let ports = neutron.ports(&on).await.unwrap();
        let [port] = ports.as_slice() else {
            panic!("{ports:?}");
        };
        assert_eq!(port.name, "x/web");
        assert_eq!(port.description, "why");
        assert_eq!(port.device_owner, "compute:kuryr");
        assert_eq!(port.network_id, network);
        assert_eq!(
            port.fixed_ips,
            ["10.0.0.7", "fd00::7"].map(|ip| ip.parse().unwrap()).into()
        );
        assert_eq!(port.security_groups, [web.clone()].into());
        assert_eq!(port.vnic_type, "direct");
        assert_eq!(port.status, "DOWN");
        assert_eq!(port.project, "fake_project_id");
        assert!(port.port_security_enabled && port.revision_number.is_some());
        let mut whole = neutron.port(&port.id).await.unwrap().unwrap();
        assert_eq!(whole, *port, "what is not listed is not needed");

        neutron
            .replace_tags(Tagged::Port, &port.id, &set(["a", "b"]))
            .await
            .unwrap();
        let tagged = Filter {
            tags: vec!["a".into()],
            security_group: Some(web),
            ..Filter::default()
        };
        let ports = neutron.ports(&tagged).await.unwrap();
        whole.tags = set(["a", "b"]);
        whole.revision_number = ports[0].revision_number;
        assert_eq!(ports, [whole]);
        let open = neutron.port(&open).await.unwrap().unwrap();
        assert!(!open.port_security_enabled);
    });
}

#[test]
fn a_port_that_may_be_another_pods_by_now_gets_no_groups() {
    let server = Neutron::start();
    let (neutron, _) = client(&server.endpoint(), options());
    let network = server.create_network(&["10.0.0.0/24"]);
    wait(async {
        let group = group(&neutron, "a").await;
        let change = |id: &str, kind: &str| match kind {
            "tags" => server.ask("PUT", &format!("ports/{id}/tags"), &json!({"tags": ["y"]})),
            "fixed_ips" => {
                let addresses = json!([{"ip_address": "10.0.0.200"}]);
                let body = json!({"port": {"fixed_ips": addresses}});
                server.ask("PUT", &format!("ports/{id}"), &body)
            }
            "allowed_address_pairs" => {
                let pairs = json!([{"ip_address": "10.0.0.201"}]);
                let body = json!({"port": {"allowed_address_pairs": pairs}});
                server.ask("PUT", &format!("ports/{id}"), &body)
            }
            field => server.ask("PUT", &format!("ports/{id}"), &json!({"port": {field: "y"}})),
        };
        for kind in [
            "name",
            "device_owner",
            "fixed_ips",
            "allowed_address_pairs",
            "tags",
        ] {
            let id = server.create_port(&network, "x");
            let port = neutron.port(&id).await.unwrap().unwrap();
            change(&id, kind);
            let error = neutron
                .update_port_groups(&port, &[group.clone()].into())
                .await
                .unwrap_err();
            assert!(matches!(error, Error::Changed { .. }), "{kind}: {error}");
            let now = neutron.port(&id).await.unwrap().unwrap();
            assert_eq!(now.security_groups, port.security_groups, "{kind}");
            server.ask("DELETE", &format!("ports/{id}"), &json!(null));
        }
    });
}

#[test]
fn a_port_gets_its_groups_unless_somebody_else_has_changed_them() {
    let server = Neutron::start();
    let (neutron, calls) = client(&server.endpoint(), options());
    let network = server.create_network(&["10.0.0.0/24"]);
    let id = server.create_port(&network, "x");
    wait(async {
        let (a, b) = (group(&neutron, "a").await, group(&neutron, "b").await);
        let port = neutron.port(&id).await.unwrap().unwrap();
        calls.words();
        let now = neutron
            .update_port_groups(&port, &[a.clone()].into())
            .await
            .unwrap();
        assert_eq!(now.security_groups, [a.clone()].into());
        assert_eq!(calls.words(), ["update_port done"]);

        // What else somebody changes makes no difference.
        server.ask(
            "PUT",
            &format!("ports/{id}"),
            &json!({"port": {"description": "y"}}),
        );
        let now = neutron
            .update_port_groups(&now, &[a.clone(), b.clone()].into())
            .await
            .unwrap();
        assert_eq!(now.description, "y");
        assert_eq!(
            calls.words(),
            ["update_port stale", "show_port done", "update_port done"]
        );

        // Who wants the same has it.
        let body = json!({"port": {"security_groups": [b]}});
        server.ask("PUT", &format!("ports/{id}"), &body);
        let same = neutron
            .update_port_groups(&now, &[b.clone()].into())
            .await
            .unwrap();
        assert_eq!(same.security_groups, [b.clone()].into());
        assert_eq!(
            calls.words(),
            ["update_port done"],
            "where nothing changes Neutron does not look at revisions"
        );

        // Who knows others than there are changes nothing.
        let error = neutron.update_port_groups(&now, &[a].into()).await.unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        assert_eq!(neutron.port(&id).await.unwrap(), Some(same.clone()));

        let none = neutron.update_port_groups(&same, &[].into()).await.unwrap();
        assert!(none.security_groups.is_empty());
        server.ask("DELETE", &format!("ports/{id}"), &json!(null));
        let error = neutron.update_port_groups(&none, &[b].into()).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert_eq!(neutron.port(&id).await.unwrap(), None);
    });
}
