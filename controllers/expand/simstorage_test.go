package expand_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simStorage has the volumes of a simulation, and checks the calls for them.
type simStorage struct {
	s  *simulation
	mu sync.Mutex
	*rand.Rand
	most   resource.Quantity // the largest size of a disk
	isCalm bool
	disks  map[string]*simDisk
}

// A simDisk is the storage of a volume.
type simDisk struct {
	size   resource.Quantity
	files  resource.Quantity // the size of the file system on the node
	onNode bool              // the node has to finish
	claim  types.UID
	open   *resource.Quantity // of the calls for the claim whose outcome is open
	isBusy bool
	late   simtest.Late
}

func newSimStorage(s *simulation, seed uint64) *simStorage {
	return &simStorage{s: s, Rand: rand.New(rand.NewPCG(seed, 2)), most: resource.MustParse("40Gi"), disks: map[string]*simDisk{}}
}

func (d *simStorage) Name(*v1.PersistentVolume) string { return driver }

func (d *simStorage) Expand(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	name := req.Spec.PersistentVolume.Name
	delay := d.begin(name, req)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	result, err := d.end(name, req, ctx.Err())
	d.s.Log("  expand %s to %s: %s, %v, %v", name, req.NewSize.String(), result.Size.String(), err, volume.KindOf(err))
	return result, err
}

// begin checks a call, and returns its duration.
func (d *simStorage) begin(name string, req volume.ExpandRequest) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	disk, ref := d.disks[name], req.Spec.PersistentVolume.Spec.ClaimRef
	if disk.claim != ref.UID {
		disk.claim, disk.open = ref.UID, nil
	}
	if !d.s.hasTwins {
		claim, err := d.s.Cluster.PersistentVolumeClaims(namespace).Get(context.Background(), ref.Name, metav1.GetOptions{})
		if err == nil && claim.UID == ref.UID {
			if allocated := claim.Status.AllocatedResources[v1.ResourceStorage]; allocated.Cmp(req.NewSize) != 0 {
				d.s.Fail("%s is expanded to %s, and its claim has allocated %s", name, req.NewSize.String(), allocated.String())
			}
		}
		if disk.isBusy {
			d.s.Fail("two calls for %s", name)
		}
		if disk.open != nil && disk.open.Cmp(req.NewSize) != 0 {
			d.s.Fail("%s is expanded to %s while the outcome for %s is open", name, req.NewSize.String(), disk.open.String())
		}
	}
	disk.isBusy = true
	if d.isCalm || d.IntN(2) == 0 {
		return 0
	}
	return time.Duration(d.IntN(60)) * time.Second
}

var (
	errBroken  = errors.New("the storage is broken")
	errTooMuch = fmt.Errorf("no disk has this size: %w", volume.ErrInfeasible)
)

// end ends a call with an outcome at random.
func (d *simStorage) end(name string, req volume.ExpandRequest, ended error) (volume.ExpandResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	disk := d.disks[name]
	disk.isBusy = false
	outcome := 100
	if !d.isCalm {
		outcome = d.IntN(20)
	}
	if ended != nil {
		outcome = d.IntN(3)
	}
	asked := req.NewSize
	switch {
	case outcome == 0: // before the effect
		disk.open = &asked
		return volume.ExpandResult{}, volume.AsUncertain(errBroken)
	case outcome == 1: // after the effect
		disk.open = &asked
		d.grow(disk, asked)
		return volume.ExpandResult{}, volume.AsUncertain(errBroken)
	case outcome == 2: // before a late effect
		disk.open = &asked
		disk.late.Add(&d.mu, time.Duration(d.IntN(300))*time.Second, func() { d.grow(disk, asked) })
		return volume.ExpandResult{}, volume.AsUncertain(errBroken)
	case outcome == 3:
		return volume.ExpandResult{}, volume.AsTransient(errBroken)
	}
	// This call ends what earlier ones have begun.
	disk.late.End()
	disk.open = nil
	switch {
	case outcome < 8:
		return volume.ExpandResult{}, errBroken
	case asked.Cmp(d.most) > 0:
		return volume.ExpandResult{}, errTooMuch
	case outcome == 8 && asked.Cmp(d.most) < 0:
		asked.Add(resource.MustParse("1Gi"))
	}
	d.grow(disk, asked)
	size := disk.size
	if d.IntN(2) == 0 { // a storage that does not report more than it was asked for
		size = asked
	}
	return volume.ExpandResult{Size: size, NodeExpansionRequired: disk.onNode}, nil
}

// grow gives a disk at least a size.
func (d *simStorage) grow(disk *simDisk, size resource.Quantity) {
	if size.Cmp(d.most) <= 0 && disk.size.Cmp(size) < 0 {
		disk.size = size.DeepCopy()
		if !disk.onNode {
			disk.files = disk.size
		}
	}
}

// growFiles grows the file system of a volume to a size that the volume reports.
func (d *simStorage) growFiles(name string, size resource.Quantity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	disk := d.disks[name]
	if disk.size.Cmp(size) < 0 {
		d.s.Fail("the node grows %s to %s, and the storage has %s", name, size.String(), disk.size.String())
	}
	if disk.files.Cmp(size) < 0 {
		disk.files = size
	}
}

// sizes returns the sizes of a disk and its file system.
func (d *simStorage) sizes(name string) (size, files resource.Quantity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disks[name].size.DeepCopy(), d.disks[name].files.DeepCopy()
}

// calm ends the failures, and adds room for all requests.
func (d *simStorage) calm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isCalm, d.most = true, resource.MustParse("100Gi")
}
