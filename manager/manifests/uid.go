package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// uidOf returns the UID of a pod without one. It is the same for the same manifest and node.
func uidOf(pod *v1.Pod, node types.NodeName) (types.UID, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	return uidFrom("pod", string(node), string(text)), nil
}

// claimUID returns the UID of a claim without one. It depends on the name alone, so that a
// changed claim stays bound to its volume.
func claimUID(claim *v1.PersistentVolumeClaim) types.UID {
	return uidFrom("claim", claim.Namespace, claim.Name)
}

// uidFrom returns a UID that depends only on the parts. It hashes the length of each part, so that
// different lists of parts differ.
func uidFrom(parts ...string) types.UID {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(part), part) // a hash does not fail
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}
