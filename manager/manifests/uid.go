package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// uidOf returns the UID of a pod that has none: the same whenever all that its manifest
// says is the same.
func uidOf(pod *v1.Pod, node types.NodeName) (types.UID, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	return hash("pod", string(node), string(text)), nil
}

// claimUID is that of a claim which has none: of the name alone, so that a claim that
// is changed is still the one that its volume is bound to.
func claimUID(claim *v1.PersistentVolumeClaim) types.UID {
	return hash("claim", claim.Namespace, claim.Name)
}

func hash(parts ...string) types.UID {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(part), part) // no hash fails
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}
