package registration

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/input"
)

// Limits of names, by the CSI specification.
const (
	maxDriverName = 63
	maxNodeID     = 256
)

// maxSegments limits the labels of the node that a driver determines.
const maxSegments = 64

// A claim is the name and the endpoint of a driver, from a valid answer of its registrar.
type claim struct{ name, endpoint string }

// checkInfo returns the claim of a registrar that serves at a socket.
func checkInfo(info *registerapi.PluginInfo, socket string) (claim, error) {
	if info.Type != registerapi.CSIPlugin {
		return claim{}, fmt.Errorf("type must be %s, got %s", registerapi.CSIPlugin, input.Quote(info.Type))
	}
	if err := checkDriverName(info.Name); err != nil {
		return claim{}, err
	}
	if err := checkVersions(info.SupportedVersions); err != nil {
		return claim{}, err
	}
	endpoint := info.Endpoint
	if endpoint == "" {
		endpoint = socket
	}
	if reason := checkEndpoint(endpoint); reason != "" {
		return claim{}, fmt.Errorf("endpoint %s: %s", input.Quote(endpoint), reason)
	}
	return claim{info.Name, endpoint}, nil
}

// checkDriverName refuses a name that is no domain name. The case does not matter, as for the drivers
// of PersistentVolumes.
func checkDriverName(name string) error {
	switch {
	case len(name) > maxDriverName:
		return fmt.Errorf("driver name %s: must have at most %d bytes", input.Quote(name), maxDriverName)
	case len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 || !isASCII(name):
		return fmt.Errorf("driver name %s: must be a DNS subdomain", input.Quote(name))
	}
	return nil
}

// isASCII reports whether a text is ASCII: strings.ToLower maps a few other letters to ASCII.
func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > '~' })
}

// checkVersions refuses versions without one of 1.x, as the kubelet does.
func checkVersions(versions []string) error {
	if _, err := version.HighestSupportedVersion(versions); err != nil {
		return fmt.Errorf("supported versions %s: must contain one of 1.x", input.Quote(strings.Join(versions, ",")))
	}
	return nil
}

func checkEndpoint(endpoint string) (reason string) {
	if reason := connection.CheckEndpoint(endpoint); reason != "" {
		return reason
	}
	if filepath.Clean(endpoint) != endpoint {
		return "must be a path without \"..\" and empty segments"
	}
	return ""
}

// nodeInfo is a valid answer of a driver's NodeGetInfo.
type nodeInfo struct {
	id       string
	topology map[string]string
	// limit is the number of the driver's volumes that the node can have. 0: not limited.
	limit int32
}

func checkNodeInfo(answer *csipb.NodeGetInfoResponse) (nodeInfo, error) {
	id := answer.GetNodeId()
	if id == "" || len(id) > maxNodeID {
		return nodeInfo{}, fmt.Errorf("node ID %s: must have 1 to %d bytes", input.Quote(id), maxNodeID)
	}
	if answer.GetMaxVolumesPerNode() < 0 {
		return nodeInfo{}, fmt.Errorf("maximum of volumes must be at least 0, got %d", answer.GetMaxVolumesPerNode())
	}
	topology := answer.GetAccessibleTopology().GetSegments()
	if len(topology) > maxSegments {
		return nodeInfo{}, fmt.Errorf("topology: must have at most %d segments, got %d", maxSegments, len(topology))
	}
	for key, value := range topology {
		if len(input.Problems(validation.IsQualifiedName, key)) > 0 || len(input.Problems(validation.IsValidLabelValue, value)) > 0 {
			return nodeInfo{}, fmt.Errorf("topology %s=%s: must be a valid label", input.Quote(key), input.Quote(value))
		}
	}
	return nodeInfo{id, topology, int32(min(answer.GetMaxVolumesPerNode(), math.MaxInt32))}, nil
}

// entry returns the driver's entry for a CSINode object.
func (n nodeInfo) entry(driver string) storagev1.CSINodeDriver {
	entry := storagev1.CSINodeDriver{Name: driver, NodeID: n.id}
	for key := range n.topology {
		entry.TopologyKeys = append(entry.TopologyKeys, key)
	}
	slices.Sort(entry.TopologyKeys)
	if n.limit > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: &n.limit}
	}
	return entry
}
