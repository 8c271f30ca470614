package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// registry is where kube-apiserver keeps its objects in etcd.
const registry = "/registry/"

// What the server writes by itself, again and again or once it has run for a
// while. A reset leaves it alone.
var own = []string{
	registry + "leases/kube-system/apiserver-",
	registry + "configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking",
}

// What the server has made by itself a moment after it is ready.
var awaited = []string{
	registry + "namespaces/default",
	registry + "namespaces/kube-node-lease",
	registry + "namespaces/kube-public",
	registry + "namespaces/kube-system",
	registry + "services/specs/default/kubernetes",
}

// first is what a server has before anybody has asked it for anything.
type first struct {
	etcd    *clientv3.Client
	get     func(path string) ([]byte, error)
	objects map[string][]byte
	groups  []byte
}

// begin waits until the server has all that it makes by itself, and keeps it.
func begin(server *etcdserver.EtcdServer, get func(string) ([]byte, error)) (*first, error) {
	f := &first{etcd: v3client.New(server), get: get}
	err := eventually("what every cluster has", func() (bool, error) {
		objects, err := f.now()
		if err != nil {
			return false, err
		}
		f.objects = objects
		for _, key := range awaited {
			if _, ok := objects[key]; !ok {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	f.groups, err = get("/apis")
	return f, err
}

// now is what etcd has of the server, but for what the server writes by itself.
func (f *first) now() (map[string][]byte, error) {
	res, err := f.etcd.Get(context.Background(), registry, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	objects := make(map[string][]byte, len(res.Kvs))
	for _, kv := range res.Kvs {
		if !isOwn(string(kv.Key)) {
			objects[string(kv.Key)] = kv.Value
		}
	}
	return objects, nil
}

func isOwn(key string) bool {
	for _, prefix := range own {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// reset makes the objects those that the server began with, and waits until it
// serves no other kinds.
func (f *first) reset() error {
	objects, err := f.now()
	if err != nil {
		return err
	}
	for key := range objects {
		if _, ok := f.objects[key]; !ok {
			if _, err := f.etcd.Delete(context.Background(), key); err != nil {
				return err
			}
		}
	}
	for key, value := range f.objects {
		if !bytes.Equal(objects[key], value) {
			if _, err := f.etcd.Put(context.Background(), key, string(value)); err != nil {
				return err
			}
		}
	}
	return eventually("the kinds that it began with", func() (bool, error) {
		groups, err := f.get("/apis")
		return bytes.Equal(groups, f.groups), err
	})
}

// obey does what is asked for, a line each, until nobody can ask any more.
func (f *first) obey(lines io.Reader) {
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		if scanner.Text() != "reset" {
			fmt.Printf("UNKNOWN %s\n", scanner.Text())
			continue
		}
		if err := f.reset(); err != nil {
			fmt.Printf("FAILED %v\n", err)
			continue
		}
		fmt.Println("RESET")
	}
}

// eventually asks until something holds.
func eventually(what string, holds func() (bool, error)) error {
	for range 3000 {
		if ok, err := holds(); err != nil || ok {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New(what + " does not come about")
}

// body is what the server answers, which has to be good.
func body(res *http.Response) ([]byte, error) {
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return text, err
}
