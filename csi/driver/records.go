package driver

import (
	"fmt"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/internal/recordstore"
	v1 "k8s.io/api/core/v1"
)

// A volumeRecord is a volume that CreateVolume has created, or creates. Its key is the name of the
// persistent volume. It is written before the storage may exist, and removed after it is deleted.
type volumeRecord struct {
	State string `json:"state"` // see the constants
	// The request of the first CreateVolume of this name.
	RequestedName string                                   `json:"requestedName"`
	Bytes         int64                                    `json:"bytes"`
	Parameters    map[string]string                        `json:"parameters,omitempty"`
	Usage         usageRecord                              `json:"usage"` // of the first capability
	Modes         []csipb.VolumeCapability_AccessMode_Mode `json:"modes"`
	Segments      map[string]string                        `json:"segments,omitempty"` // the attempted topology

	// The result, of a volume that is ready or being deleted.
	ID       string               `json:"id,omitempty"`
	Source   string               `json:"source,omitempty"`
	Volume   *v1.PersistentVolume `json:"volume,omitempty"`
	Capacity int64                `json:"capacity,omitempty"`
	Topology []map[string]string  `json:"topology,omitempty"`
}

// The states of a volumeRecord.
const (
	stateCreating = "creating"
	stateReady    = "ready"
	stateDeleting = "deleting"
)

// An attachRecord is a volume that is attached to nodes, or may be. Its key is the volume's ID.
type attachRecord struct {
	Source string                 `json:"source"`
	Nodes  map[string]usageRecord `json:"nodes"` // by node ID
}

// A nodeRecord is a volume that is staged or published on this node, or may be. Its key is the volume's
// ID. It is written before the volume is mounted, and removed after it is unmounted.
type nodeRecord struct {
	Source    string         `json:"source"`
	Staged    *stageRecord   `json:"staged,omitempty"`
	Published []targetRecord `json:"published,omitempty"`
}

// A stageRecord is the staging of a volume.
type stageRecord struct {
	Path        string      `json:"path"` // of the caller
	Usage       usageRecord `json:"usage"`
	Device      string      `json:"device,omitempty"`      // result of WaitForAttach
	DeviceMount string      `json:"deviceMount,omitempty"` // the plugin's directory; empty: not mounted once for the node
	BlockStage  string      `json:"blockStage,omitempty"`  // result of SetUpDevice
	Boot        string      `json:"boot,omitempty"`        // see bootid
}

// A targetRecord is a publication of a volume.
type targetRecord struct {
	Path     string      `json:"path"`
	Usage    usageRecord `json:"usage"`
	Group    *int64      `json:"group,omitempty"` // of the files
	ReadOnly bool        `json:"readOnly,omitempty"`
	Boot     string      `json:"boot,omitempty"` // see bootid
}

// A usageRecord is a volume capability. Of the mount options without secrets it has a digest.
type usageRecord struct {
	Block  bool                                   `json:"block,omitempty"`
	FSType string                                 `json:"fsType,omitempty"`
	Flags  string                                 `json:"flags,omitempty"`
	Mode   csipb.VolumeCapability_AccessMode_Mode `json:"mode"`
}

// at returns the publication at a path, or nil.
func (r *nodeRecord) at(target string) *targetRecord {
	for i := range r.Published {
		if r.Published[i].Path == target {
			return &r.Published[i]
		}
	}
	return nil
}

// without returns the publications but that at a path.
func (r *nodeRecord) without(target string) (rest []targetRecord) {
	for _, p := range r.Published {
		if p.Path != target {
			rest = append(rest, p)
		}
	}
	return rest
}

func (r *nodeRecord) isEmpty() bool { return r.Staged == nil && len(r.Published) == 0 }

// saveNode writes a record, or removes an empty one.
func (d *driver) saveNode(id string, rec *nodeRecord) error {
	if rec.isEmpty() {
		return d.onNode.remove(id)
	}
	return d.onNode.write(id, *rec)
}

// openStores creates the directories of the records.
func (d *driver) openStores() error {
	own, err := d.config.pluginDir()
	if err != nil {
		return err
	}
	root := d.config.Host.Root()
	rel, err := recordstore.Below(root, own)
	if err != nil {
		return fmt.Errorf("directory of the records: %w", err)
	}
	d.onNode = newStore[nodeRecord](root, rel+"/node")
	controllerRoot, dir := root, rel+"/controller"
	if d.config.ControllerDir != "" {
		controllerRoot, dir = d.config.ControllerDir, d.config.Name
	}
	d.volumes = newStore[volumeRecord](controllerRoot, dir+"/volumes")
	d.attached = newStore[attachRecord](controllerRoot, dir+"/attached")
	if err := d.onNode.open(); err != nil {
		return fmt.Errorf("open the records of the node: %w", err)
	}
	if !d.controls() {
		return nil
	}
	if err := d.volumes.open(); err != nil {
		return fmt.Errorf("open the records of the controller: %w", err)
	}
	if err := d.attached.open(); err != nil {
		return fmt.Errorf("open the records of the controller: %w", err)
	}
	return nil
}

// targets are the target paths with the IDs of the volumes that are published there.
type targets struct {
	mu sync.Mutex
	by map[string]string
}

// reserve claims a path for a volume, and returns the volume that has it: id, or another one.
func (t *targets) reserve(target, id string) (holder string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holder, ok := t.by[target]; ok {
		return holder
	}
	t.by[target] = id
	return id
}

// release frees a path of a volume.
func (t *targets) release(target, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[target] == id {
		delete(t.by, target)
	}
}

// holder returns the volume that is published at a path, or "".
func (t *targets) holder(target string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[target]
}

// readTargets reads the target paths from the records of the node, but those from before the start of the
// system: another volume may be published there. An unreadable record costs its volume alone.
func (d *driver) readTargets() error {
	d.targets.by = map[string]string{}
	records, broken, err := d.onNode.all()
	if err != nil {
		return fmt.Errorf("read the records of the node: %w", err)
	}
	for _, err := range broken {
		d.config.Logger.Error("unreadable record", "error", err)
	}
	for id, rec := range records {
		for _, p := range rec.Published {
			if !bootid.IsEarlier(p.Boot, d.boot) {
				d.targets.by[p.Path] = id
			}
		}
	}
	return nil
}
