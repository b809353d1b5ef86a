package csi

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// The keys of volume contexts that drivers receive about pods.
const (
	podNameKey        = "csi.storage.k8s.io/pod.name"
	podNamespaceKey   = "csi.storage.k8s.io/pod.namespace"
	podUIDKey         = "csi.storage.k8s.io/pod.uid"
	serviceAccountKey = "csi.storage.k8s.io/serviceAccount.name"
	ephemeralKey      = "csi.storage.k8s.io/ephemeral"
	tokensKey         = "csi.storage.k8s.io/serviceAccount.tokens"
)

// podInfo returns the entries of the volume context for a driver with podInfoOnMount.
func podInfo(pod *v1.Pod, ephemeral bool) map[string]string {
	return map[string]string{
		podNameKey:        pod.Name,
		podNamespaceKey:   pod.Namespace,
		podUIDKey:         string(pod.UID),
		serviceAccountKey: pod.Spec.ServiceAccountName,
		ephemeralKey:      strconv.FormatBool(ephemeral),
	}
}
