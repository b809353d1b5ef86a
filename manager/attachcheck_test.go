package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// detach takes the volume away behind the node's back.
func (n *node) detach(name string) {
	n.Helper()
	d, err := n.plugin.NewDetacher()
	require.NoError(n, err)
	require.NoError(n, d.Detach(n.Context(), volume.DetachRequest{VolumeName: filepath.Join(n.dir, "disk-"+name), Node: "node-1"}))
}

func (n *node) isAttached(name string) bool {
	n.Helper()
	return len(n.plugin.AttachedTo(filepath.Join(n.dir, "disk-"+name))) > 0
}

// TestDetachedVolumeIsReattached: a volume that another program detached is attached again at the next
// attach check. Its plugin mounts it and sets it up again, and one event is emitted. Other
// volumes are not affected.
func TestDetachedVolumeIsReattached(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"mounted once": {}, "for each pod": {NoDeviceMount: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				n.claim("b")
				pod := podWith("1", "a", "b")
				m, stop := n.runUp(pod, podWith("2", "a"))
				defer stop()
				sets := n.plugin.Calls(volumetest.SetUp)
				n.detach("a")
				time.Sleep(time.Minute)
				synctest.Wait()
				require.True(t, n.isAttached("a"))
				n.up(m, pod)
				n.up(m, podWith("2", "a"))
				require.Greater(t, n.plugin.Calls(volumetest.SetUp), sets)
				require.Equal(t, 3, n.plugin.Calls(volumetest.Attach), "two volumes, and one of them again")
				detached := n.reasonsOf(func(e manager.Event) bool { return e.Reason == manager.VolumeDetached })
				require.Equal(t, []string{manager.VolumeDetached}, detached)
				time.Sleep(time.Hour)
				require.Equal(t, 3, n.plugin.Calls(volumetest.Attach))
			})
		})
	}
}

// TestDetachedVolumeIsUncertain: until a detached volume is attached again, it is reported as in use,
// and neither as up nor as attached.
func TestDetachedVolumeIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		unique := m.GetVolumesInUse()[0]
		n.detach("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.Attach, Err: errors.New("no luck")})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.False(t, m.VolumeIsAttached(unique))
		require.Equal(t, []v1.UniqueVolumeName{unique}, m.GetVolumesInUse())
		require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), pod), "no luck")
		require.Empty(t, m.GetMountedVolumesForPod("1"))
		n.plugin.ClearFaults()
		n.up(m, pod)
		require.True(t, m.VolumeIsAttached(unique))
	})
}

// TestAttachCheckInterval: attach checks run at the configured interval, and only while a volume is
// attached.
func TestAttachCheckInterval(t *testing.T) {
	for name, test := range map[string]struct {
		every time.Duration
		fake  volumetest.FakeConfig
		want  int
	}{
		"by default":   {0, volumetest.FakeConfig{}, 60},
		"more often":   {time.Second, volumetest.FakeConfig{}, 3600},
		"never":        {-1, volumetest.FakeConfig{}, 0},
		"not attached": {0, volumetest.FakeConfig{NoAttach: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, test.fake)
				n.config.AttachCheck = test.every
				n.claim("a")
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, test.want, n.plugin.Calls(volumetest.VolumesAreAttached))
				n.source.RemovePod("1")
				n.down(m, pod)
				time.Sleep(time.Hour)
				require.InDelta(t, test.want, n.plugin.Calls(volumetest.VolumesAreAttached), 1)
			})
		})
	}
}

// An attachReporter reports the attached volumes that the test chooses.
type attachReporter struct {
	*volumetest.FakePlugin
	queries atomic.Int64
	report  func(specs []*volume.Spec) (map[*volume.Spec]bool, error)
}

func (p *attachReporter) NewAttacher() (volume.Attacher, error) {
	a, err := p.FakePlugin.NewAttacher()
	return reportingAttacher{a, p}, err
}

type reportingAttacher struct {
	volume.Attacher
	p *attachReporter
}

func (a reportingAttacher) VolumesAreAttached(_ context.Context, specs []*volume.Spec, _ types.NodeName) (map[*volume.Spec]bool, error) {
	a.p.queries.Add(1)
	return a.p.report(specs)
}

// TestFailedAttachCheckChangesNothing: a missing result or a failure of a plugin's attach check
// changes nothing.
func TestFailedAttachCheckChangesNothing(t *testing.T) {
	for name, report := range map[string]func([]*volume.Spec) (map[*volume.Spec]bool, error){
		"nothing": func([]*volume.Spec) (map[*volume.Spec]bool, error) { return nil, nil },
		"another": func([]*volume.Spec) (map[*volume.Spec]bool, error) {
			return map[*volume.Spec]bool{{}: false, nil: false}, nil
		},
		"an error": func(specs []*volume.Spec) (map[*volume.Spec]bool, error) {
			return map[*volume.Spec]bool{specs[0]: false}, errors.New("no luck")
		},
		"a panic": func([]*volume.Spec) (map[*volume.Spec]bool, error) { panic("no luck") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				p := &attachReporter{FakePlugin: n.plugin, report: report}
				var err error
				n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, p)
				require.NoError(t, err)
				n.claim("a")
				m, stop := n.runUp(podWith("1", "a"))
				defer stop()
				time.Sleep(time.Hour)
				synctest.Wait()
				require.EqualValues(t, 60, p.queries.Load())
				require.Equal(t, 1, n.plugin.Calls(volumetest.Attach))
				require.True(t, m.VolumeIsAttached(m.GetVolumesInUse()[0]))
			})
		})
	}
}

// TestLateAttachCheckIsDropped: the late result of an attach check is dropped for a volume that was
// detached and attached again meanwhile. A plugin is not queried again while a query is in
// flight.
func TestLateAttachCheckIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		answer := make(chan struct{})
		p := &attachReporter{FakePlugin: n.plugin}
		p.report = func(specs []*volume.Spec) (map[*volume.Spec]bool, error) {
			if p.queries.Load() > 1 {
				return nil, nil
			}
			<-answer
			return map[*volume.Spec]bool{specs[0]: false}, nil
		}
		var err error
		n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, p)
		require.NoError(t, err)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, p.queries.Load())
		n.source.RemovePod("1")
		n.down(m, pod)
		synctest.Wait()
		require.False(t, n.isAttached("a"))
		require.NoError(t, n.source.SetPod(pod))
		n.up(m, pod)
		close(answer)
		time.Sleep(time.Hour)
		require.Equal(t, 2, n.plugin.Calls(volumetest.Attach))
		require.Empty(t, n.reasonsOf(func(e manager.Event) bool { return e.Reason == manager.VolumeDetached }))
	})
}

// TestConfiguredAttacherVerifies: the embedder's attacher is queried if it can verify attachments, and
// only then.
func TestConfiguredAttacherVerifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		a := &verifyingAttacher{}
		n.config.Attacher = a
		n.claim("a")
		_, stop := n.runUp(podWith("1", "a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 2, a.attaches.Load())
		stop()
		n.config.Attacher = struct{ manager.Attacher }{a}
		_, stop = n.runUp(podWith("1", "a"))
		defer stop()
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, a.queries.Load())
		require.Zero(t, n.plugin.Calls(volumetest.VolumesAreAttached))
	})
}

// TestBusyVolumeIsCheckedNextTime: if the only attached volume is busy at the time of a check, it is
// checked the next time.
func TestBusyVolumeIsCheckedNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		_, stop := n.runUp(podWith("1", "a"))
		defer stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: 90 * time.Second, Times: 1})
		require.NoError(t, n.source.SetPod(podWith("2", "a")))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 59, n.plugin.Calls(volumetest.VolumesAreAttached), "in each minute but the first")
	})
}

// TestReattachBackoff: a volume that its plugin always reports as detached is attached again,
// with an event, after growing pauses: 1, 2, 4, ... minutes, up to an hour. The pause is a
// minute again once the volume is reported as attached, or the manager has detached it.
func TestReattachBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		var attached atomic.Bool
		p := &attachReporter{FakePlugin: n.plugin}
		p.report = func(specs []*volume.Spec) (map[*volume.Spec]bool, error) {
			return map[*volume.Spec]bool{specs[0]: attached.Load()}, nil
		}
		var err error
		n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, p)
		require.NoError(t, err)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		attaches := 1
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			attaches += want
			require.Equal(t, attaches, n.plugin.Calls(volumetest.Attach))
			events := n.reasonsOf(func(e manager.Event) bool { return e.Reason == manager.VolumeDetached })
			require.Len(t, events, attaches-1-n.plugin.Calls(volumetest.Detach), "one event for each")
		}
		after(64*time.Minute+time.Second, 7) // in the minutes 1, 2, 4, 8, 16, 32 and 64
		after(24*time.Hour, 24)

		attached.Store(true)
		after(time.Minute, 0)
		attached.Store(false)
		after(4*time.Minute, 3)

		n.source.RemovePod("1")
		n.down(m, pod)
		synctest.Wait()
		require.Equal(t, 1, n.plugin.Calls(volumetest.Detach))
		require.NoError(t, n.source.SetPod(pod))
		n.up(m, pod)
		attaches++
		after(4*time.Minute, 3)
	})
}

type verifyingAttacher struct{ attaches, queries atomic.Int64 }

func (a *verifyingAttacher) Attach(context.Context, manager.Attachment) (string, error) {
	a.attaches.Add(1)
	return "", nil
}

func (a *verifyingAttacher) Detach(context.Context, manager.Attachment) error { return nil }

func (a *verifyingAttacher) VolumesAreAttached(_ context.Context, all []manager.Attachment) (map[v1.UniqueVolumeName]bool, error) {
	a.queries.Add(1)
	return map[v1.UniqueVolumeName]bool{all[0].Volume: false, "none": false}, nil
}
