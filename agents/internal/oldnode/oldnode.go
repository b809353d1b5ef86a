// Package oldnode changes the time at which a node was created, for tests: a controller that attaches waits for the
// reports of a new node.
package oldnode

import (
	"bytes"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// Key returns the key of a node in etcd.
func Key(name string) string { return "/registry/minions/" + name }

// Age makes a stored node a day old.
func Age(stored []byte) ([]byte, error) {
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	node := &v1.Node{}
	if _, _, err := serializer.Decode(stored, nil, node); err != nil {
		return nil, err
	}
	node.CreationTimestamp = metav1.NewTime(time.Now().Add(-24 * time.Hour))
	var changed bytes.Buffer
	err := serializer.Encode(node, &changed)
	return changed.Bytes(), err
}
