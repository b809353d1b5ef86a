package node_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mirror returns the mirror pod of a static pod.
func mirror(name, uid string, volumes ...v1.VolumeSource) *v1.Pod {
	p := forged(name, uid, volumes...)
	isController := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1", Controller: &isController}}
	return p
}

// forged returns the mirror pod of who may create pods, and knows no UID of a node.
func forged(name, uid string, volumes ...v1.VolumeSource) *v1.Pod {
	p := pod(name, volumes...)
	p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: uid}
	return p
}

func putNode(w *world) {
	w.put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-1"}})
}

// TestMirrorPods: the source returns a mirror pod with the UID of its static pod, under which the
// containers run, and keeps it when the mirror pod is deleted or created again.
func TestMirrorPods(t *testing.T) {
	inWorld(t, func(w *world) {
		putNode(w)
		w.put(mirror("static", "0123", bySecret("key")), mirror("other", "4567"))
		for _, bad := range []string{"", ".", "..", "../a", "a/b", "a\x00b", strings.Repeat("a", 256)} {
			w.put(mirror(fmt.Sprintf("bad-%x", len(bad)), bad))
		}
		w.config.LocalPods = []*v1.Pod{mirror("static", "0123"), mirror("gone", "89ab")}
		for i, uid := range []types.UID{"0123", "89ab"} {
			w.config.LocalPods[i].UID, w.running[uid] = uid, true
		}
		w.start()
		require.Equal(t, []string{"0123 Running", "4567 Running", "89ab Running"}, w.pods())
		require.Equal(t, []string{"nodes node-1", "pods spec.nodeName=node-1", "secrets ns/key"}, w.watched())
		w.takeChanges()

		w.put(inPhase(mirror("static", "0123", bySecret("key")), v1.PodFailed))
		w.remove(pod("other"))
		require.Equal(t, []string{"0123 Running", "89ab Running"}, w.pods(), "one without containers is deleted")
		w.remove(pod("static"))
		require.Equal(t, []string{"0123 Running", "89ab Running"}, w.pods(), "the containers run")
		require.Contains(t, w.watched(), "secrets ns/key")
		w.put(mirror("static", "0123", bySecret("new")))
		require.Equal(t, []string{"0123 Running", "89ab Running"}, w.pods())
		require.Equal(t, []string{"nodes node-1", "pods spec.nodeName=node-1", "secrets ns/new"}, w.watched())

		w.fail(errDown) // the mirror pod is replaced while no watch runs
		w.remove(pod("static"))
		w.put(mirror("static", "0123", bySecret("key")))
		w.fail(nil)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"0123 Running", "89ab Running"}, w.pods())
		require.Equal(t, []string{"nodes node-1", "pods spec.nodeName=node-1", "secrets ns/key"}, w.watched())

		w.remove(pod("static"))
		synctest.Wait()
		delete(w.running, "0123")
		delete(w.running, "89ab")
		w.ContainersEnded("0123", "89ab")
		require.Empty(t, w.pods())
		require.Equal(t, []string{"pods spec.nodeName=node-1"}, w.watched())
	})
}

// TestForgedMirrorPod: who may create pods can write the annotation of a mirror pod, with the UID of any pod. Such a
// mirror pod has no effect.
func TestForgedMirrorPod(t *testing.T) {
	for name, victim := range map[string]*v1.Pod{
		"ordinary pod": pod("victim", bySecret("key")),
		"mirror pod":   mirror("victim", "0123", bySecret("key")),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				putNode(w)
				time.Sleep(time.Hour)
				uid := types.UID("0123")
				thief := forged("a-thief", "0123", bySecret("other"))
				if w.put(thief); !isMirror(victim) { // the thief is older
					w.put(victim)
					uid = w.uid(victim.UID)
					w.remove(thief)
					thief = forged("a-thief", string(uid), bySecret("other"))
				}
				w.put(thief, victim)
				w.running[victim.UID], w.running[uid] = true, true
				w.start()
				requireVictim := func() {
					t.Helper()
					require.Len(t, w.pods(), 1)
					p, err := w.Pod(w.Context(), uid)
					require.NoError(t, err)
					require.Equal(t, "victim", p.Name)
					require.Subset(t, w.watched(), []string{"secrets ns/key"})
					require.NotContains(t, w.watched(), "secrets ns/other")
				}
				requireVictim()
				w.put(thief)
				requireVictim()
				w.remove(thief)
				requireVictim()
				w.put(thief)
				w.remove(victim)
				w.put(thief)
				requireVictim()
				w.news.Lock()
				delete(w.running, uid)
				delete(w.running, victim.UID)
				w.news.Unlock()
				w.ContainersEnded(uid)
				require.Empty(t, w.pods())
			})
		})
	}
}

func isMirror(p *v1.Pod) bool { return p.Annotations != nil }

// TestMirrorPodOfOrdinaryPod: a forged mirror pod with the name and the UID of a deleted pod does not replace it.
func TestMirrorPodOfOrdinaryPod(t *testing.T) {
	inWorld(t, func(w *world) {
		putNode(w)
		w.put(pod("a", bySecret("key")))
		uid := w.uid("a")
		w.running["a"], w.running[uid] = true, true // the label is that of the mirror pod soon
		w.start()
		w.remove(pod("a"))
		w.put(forged("a", string(uid)))
		w.settle()
		p, err := w.Pod(w.Context(), uid)
		require.NoError(t, err)
		require.Len(t, p.Spec.Volumes, 1)
		require.Contains(t, w.watched(), "secrets ns/key")
	})
}

// object returns the UID of a mirror pod itself.
func (w *world) object(name string) types.UID {
	w.Helper()
	p, err := w.server.Direct().Pods("ns").Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	return p.UID
}

// TestNewMirrorPodOfTheName: the mirror pod of a static pod is deleted and created again, by the kubelet or by a user of
// its namespace, who may only create pods.
func TestNewMirrorPodOfTheName(t *testing.T) {
	static, tenants := mirror("static", "0123", bySecret("key")), forged("static", "0123", bySecret("tenants"))
	requireKept := func(w *world) {
		w.Helper()
		w.settle()
		require.Equal(w, []string{"0123 Running"}, w.pods())
		require.NotContains(w, w.watched(), "secrets ns/tenants")
	}
	t.Run("running", func(t *testing.T) {
		inWorld(t, func(w *world) {
			putNode(w)
			w.running["0123"] = true
			w.put(static)
			w.start()
			for range 2 { // the watch of the node ends with the last mirror pod, and begins again
				w.remove(static)
				w.settle()
				w.put(tenants)
				requireKept(w)
				w.remove(tenants)
				w.settle()
				w.put(static)
				requireKept(w)
				require.Contains(w, w.watched(), "secrets ns/key")
			}
			w.fail(errDown)
			w.remove(static)
			w.put(tenants)
			w.fail(nil)
			time.Sleep(2 * time.Minute)
			requireKept(w)
			require.Contains(w, w.watched(), "secrets ns/key")
		})
	})
	t.Run("without containers", func(t *testing.T) {
		inWorld(t, func(w *world) {
			putNode(w)
			w.put(static)
			w.start()
			for range 2 {
				w.remove(static)
				w.settle()
				require.Empty(w, w.pods())
				w.put(static)
				w.settle()
				require.Equal(w, []string{"0123 Running"}, w.pods())
			}
		})
	})
	for name, local := range map[string]func(w *world) *v1.Pod{
		"known static pod":   func(*world) *v1.Pod { return mirror("static", "0123", bySecret("key")) },
		"known ordinary pod": func(w *world) *v1.Pod { return pod("static", bySecret("key")) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				putNode(w)
				known := local(w)
				known.UID = "0123"
				w.config.LocalPods = []*v1.Pod{known}
				w.running["0123"] = true
				w.put(tenants)
				w.start()
				requireKept(w)
				require.Contains(w, w.watched(), "secrets ns/key")
				w.put(mirror("static", "0123", bySecret("tenants"))) // an update
				w.remove(tenants)
				w.put(mirror("static", "0123", bySecret("new")))
				requireKept(w)
				require.Equal(w, name == "known static pod", slices.Contains(w.watched(), "secrets ns/new"))
			})
		})
	}
	t.Run("the Node object is another one", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.config.StaticPods = w.TempDir()
			putNode(w)
			w.put(static)
			w.start()
			require.NoError(w, w.server.Direct().Nodes().Delete(w.Context(), "node-1", metav1.DeleteOptions{}))
			w.settle()
			requireKept(w)
			putNode(w)
			requireKept(w)
			w.stop()
			w.start()
			requireKept(w)
			require.Contains(w, w.watched(), "secrets ns/key")
		})
	})
}

// TestMirrorPodAfterOrdinaryPod: a mirror pod that waits for the end of an ordinary pod does not get its UID with the end.
func TestMirrorPodAfterOrdinaryPod(t *testing.T) {
	inWorld(t, func(w *world) {
		putNode(w)
		w.put(pod("a", bySecret("key")))
		w.start()
		w.put(mirror("thief", string(w.uid("a"))))
		w.settle()
		w.remove(pod("a"))
		require.Empty(t, w.pods())
	})
}

// TestOrdinaryPodBecomesMirrorPod: a deletion that comes together with the creation of a mirror pod of the name and the
// UID ends the pod.
func TestOrdinaryPodBecomesMirrorPod(t *testing.T) {
	inWorld(t, func(w *world) {
		putNode(w)
		w.put(pod("a", bySecret("key")))
		uid := w.uid("a")
		w.start()
		w.fail(errDown)
		w.remove(pod("a"))
		w.put(forged("a", string(uid)))
		w.fail(nil)
		time.Sleep(2 * time.Minute)
		w.ContainersEnded(uid)
		require.Empty(t, w.pods())
	})
}

// TestMirrorPodGoesBeforeTheNodeIsRead: of two mirror pods one is deleted while the Node object cannot be read. The other
// one does not get the UID as long as containers run.
func TestMirrorPodGoesBeforeTheNodeIsRead(t *testing.T) {
	inWorld(t, func(w *world) {
		allow := w.server.Inject(apitest.Fault{Call: apitest.Call{Resource: "nodes"}, Failure: apitest.Forbidden})
		putNode(w)
		w.running["0123"] = true
		w.put(mirror("static", "0123"), mirror("tenants", "0123"))
		w.start()
		requireHeld(w, "0123")
		w.remove(mirror("static", "0123"))
		requireHeld(w, "0123")
		allow()
		time.Sleep(time.Hour)
		requireHeld(w, "0123")
		w.news.Lock()
		delete(w.running, "0123")
		w.news.Unlock()
		w.ContainersEnded("0123")
		requireNamed(w, "0123", "tenants")
	})
}

// TestIgnoredMirrorPodIsLoggedOnce: a tenant who changes an ignored mirror pod does not fill the log.
func TestIgnoredMirrorPodIsLoggedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		var log bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		putNode(w)
		w.start()
		for range 5 {
			w.put(forged("forged", "0123"))
			w.settle()
		}
		require.Equal(t, 1, strings.Count(log.String(), "mirror pod ignored"))
		w.remove(forged("forged", "0123"))
		w.settle()
		w.put(forged("forged", "0123"))
		w.settle()
		require.Equal(t, 2, strings.Count(log.String(), "mirror pod ignored"), "another object")
	})
}

// TestRecordOfLocalPod: a local pod whose mirror pod is gone keeps its record.
func TestRecordOfLocalPod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.StaticPods = w.TempDir()
		record := filepath.Join(w.config.StaticPods, "0123")
		require.NoError(t, os.Symlink("ns/static/object", record))
		local := mirror("static", "0123")
		local.UID = "0123"
		w.config.LocalPods = []*v1.Pod{local}
		w.running["0123"] = true
		for range 2 {
			w.start()
			require.Len(t, w.pods(), 1)
			text, err := os.Readlink(record)
			require.NoError(t, err)
			require.Equal(t, "ns/static/object", text)
			w.stop()
		}
		require.NoError(t, os.Remove(record))
		for range 2 {
			w.start()
			require.Len(t, w.pods(), 1)
			text, err := os.Readlink(record)
			require.NoError(t, err)
			require.Equal(t, "ns/static/", text)
			w.stop()
			w.config.LocalPods = nil
		}
		w.start()
	})
}

// TestKnownPodsWithoutNode: a pod that the node knows stays known while the Node object cannot be read.
func TestKnownPodsWithoutNode(t *testing.T) {
	inWorld(t, func(w *world) {
		allow := w.server.Inject(apitest.Fault{Call: apitest.Call{Resource: "nodes"}, Failure: apitest.Forbidden})
		putNode(w)
		w.config.StaticPods = w.TempDir()
		require.NoError(w, os.Symlink("ns/static/earlier", filepath.Join(w.config.StaticPods, "0123")))
		w.put(mirror("a-thief", "0123"), mirror("static", "0123"))
		w.start()
		requireHeld(w, "0123")
		allow()
		time.Sleep(time.Hour)
		requireNamed(w, "0123", "static")
	})
}

// TestOwnersOfMirrorPods: the controller of a mirror pod is the present Node object of this node.
func TestOwnersOfMirrorPods(t *testing.T) {
	for name, change := range map[string]func(p *v1.Pod){
		"of another node":      func(p *v1.Pod) { p.OwnerReferences[0].Name = "node-2" },
		"of a node before":     func(p *v1.Pod) { p.OwnerReferences[0].UID = "before" },
		"of another kind":      func(p *v1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"of another group":     func(p *v1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" },
		"not the controller":   func(p *v1.Pod) { p.OwnerReferences[0].Controller = nil },
		"without an owner":     func(p *v1.Pod) { p.OwnerReferences = nil },
		"control: the kubelet": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				putNode(w)
				p := mirror("static", "0123")
				if change != nil {
					change(p)
				}
				w.put(p)
				w.start()
				require.Equal(t, change == nil, len(w.pods()) == 1)
				w.put(p)
				require.Equal(t, change == nil, len(w.pods()) == 1)
			})
		})
	}
}

// requireHeld requires that the source returns a pod whose volumes stay as they are, and no object of its volumes.
func requireHeld(w *world, uid types.UID) {
	w.Helper()
	w.settle()
	p, err := w.Pod(w.Context(), uid)
	require.NoError(w, err)
	require.Len(w, p.Spec.Volumes, 1)
	require.Equal(w, "it-is-not-known-which-pod-has-this-uid", p.Spec.Volumes[0].Name)
	for _, watched := range w.watched() {
		require.NotContains(w, watched, "secrets")
	}
}

// requireNamed requires that the source returns the pod with a name for a UID.
func requireNamed(w *world, uid types.UID, name string) {
	w.Helper()
	w.settle()
	p, err := w.Pod(w.Context(), uid)
	require.NoError(w, err)
	require.Equal(w, name, p.Name)
	require.Empty(w, p.Spec.Volumes)
}

// TestTwoMirrorPods: of two mirror pods with one UID, both with the node as their controller, the one that the node
// knows has the UID. If it knows neither, no volume of the UID changes.
func TestTwoMirrorPods(t *testing.T) {
	older, younger := mirror("a", "0123"), mirror("b", "0123")
	before := func(w *world) {
		putNode(w)
		w.running["0123"] = true
		w.put(older)
		time.Sleep(time.Minute)
		w.put(younger)
	}
	for name, known := range map[string]func(w *world){
		"local pod": func(w *world) {
			local := younger.DeepCopy()
			local.UID = "0123"
			w.config.LocalPods = []*v1.Pod{local}
		},
		"local pod by its manifest": func(w *world) {
			w.config.LocalPods = []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "b", UID: "0123", Annotations: map[string]string{"kubernetes.io/config.source": "file"},
			}}}
		},
		"record": func(w *world) {
			w.config.StaticPods = w.TempDir()
			require.NoError(w, os.Symlink("ns/b/earlier", filepath.Join(w.config.StaticPods, "0123")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				known(w)
				before(w)
				w.start()
				requireNamed(w, "0123", "b")
				w.remove(younger)
				w.put(older)
				requireNamed(w, "0123", "b") // its containers run
				w.put(younger)
				requireNamed(w, "0123", "b")
			})
		})
	}
	t.Run("unknown", func(t *testing.T) {
		inWorld(t, func(w *world) {
			before(w)
			w.start()
			requireHeld(w, "0123")
			w.put(younger)
			w.remove(older)
			requireHeld(w, "0123") // the containers can be those of either
			w.put(older)
			w.remove(older, younger)
			requireHeld(w, "0123")
			w.put(younger)
			requireHeld(w, "0123")
			w.news.Lock()
			delete(w.running, "0123")
			w.news.Unlock()
			w.ContainersEnded("0123")
			requireNamed(w, "0123", "b")
			w.put(older)
			requireNamed(w, "0123", "b")
			w.remove(younger)
			requireNamed(w, "0123", "a")
		})
	})
	t.Run("unknown, on a known node", func(t *testing.T) {
		inWorld(t, func(w *world) {
			before(w)
			w.server.Inject(apitest.Fault{Call: apitest.Call{Resource: "pods"}, Times: 1, Latency: 30 * time.Second})
			ctx, cancel := context.WithCancel(w.Context())
			defer cancel()
			w.started = func(source *node.Source) { // the node is read before the pods
				w.ended.Go(func() { _ = source.FollowLabels(ctx, func(map[string]string) {}) })
			}
			w.start()
			requireHeld(w, "0123")
			cancel()
		})
	})
	t.Run("new", func(t *testing.T) {
		inWorld(t, func(w *world) {
			putNode(w)
			w.start()
			w.fail(errDown)
			w.put(older, younger)
			w.fail(nil)
			time.Sleep(2 * time.Minute)
			require.Empty(t, w.pods())
			w.remove(older)
			requireNamed(w, "0123", "b")
		})
	})
}

// TestMirrorPodsWithoutNode: as long as the Node object cannot be read the source keeps the volumes of mirror pods as
// they are, and returns no new ones.
func TestMirrorPodsWithoutNode(t *testing.T) {
	inWorld(t, func(w *world) {
		allow := w.server.Inject(apitest.Fault{Call: apitest.Call{Resource: "nodes"}, Failure: apitest.Forbidden})
		putNode(w)
		w.put(mirror("static", "0123"), forged("forged", "4567"))
		w.start()
		requireHeld(w, "0123")
		w.put(mirror("new", "89ab"))
		require.Len(t, w.pods(), 1)
		allow()
		time.Sleep(time.Hour)
		require.Equal(t, []string{"0123 Running", "89ab Running"}, w.pods())
		requireNamed(w, "0123", "static")
	})
}

// TestRecordsOfStaticPods: the source records which static pod has which UID. After a restart no other pod gets it, and
// nothing changes while its mirror pod is missing and its containers run.
func TestRecordsOfStaticPods(t *testing.T) {
	inWorld(t, func(w *world) {
		dir := filepath.Join(w.TempDir(), "static-pods")
		w.config.StaticPods = dir
		putNode(w)
		static, thief := mirror("static", "0123"), mirror("a-thief", "0123")
		w.put(static, mirror("ended", "4567"))
		w.running["0123"] = true
		w.start()
		text, err := os.Readlink(filepath.Join(dir, "0123"))
		require.NoError(t, err)
		require.Equal(t, "ns/static/"+string(w.object("static")), text)
		w.remove(mirror("ended", "4567"))
		synctest.Wait()
		require.NoFileExists(t, filepath.Join(dir, "4567"))
		w.stop()

		require.NoError(t, os.WriteFile(filepath.Join(dir, "a file"), nil, 0o600))
		require.NoError(t, os.Symlink("no-namespace", filepath.Join(dir, "89ab")))
		require.NoError(t, os.Symlink("ns/ended/object", filepath.Join(dir, "4567")))
		w.remove(static)
		w.put(thief)
		w.start()
		requireHeld(w, "0123")
		require.Len(t, w.pods(), 1)
		_, err = os.Readlink(filepath.Join(dir, "4567"))
		require.ErrorIs(t, err, fs.ErrNotExist)
		w.put(static)
		requireNamed(w, "0123", "static")
		w.put(mirror("other", "89ab"))
		require.Len(t, w.pods(), 2)
		text, err = os.Readlink(filepath.Join(dir, "89ab"))
		require.NoError(t, err)
		require.Equal(t, "ns/other/"+string(w.object("other")), text, "the unfit record is replaced")
	})
}

// TestMirrorPodAfterOwner: a mirror pod with the UID of another pod takes the UID over after the end of that pod.
func TestMirrorPodAfterOwner(t *testing.T) {
	inWorld(t, func(w *world) {
		putNode(w)
		w.put(mirror("old", "0123", bySecret("key")))
		w.start()
		time.Sleep(time.Minute)
		w.put(mirror("new", "0123", bySecret("other")))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"0123 Running"}, w.pods())
		w.remove(mirror("old", "0123"))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"0123 Running"}, w.pods())
		p, err := w.Pod(w.Context(), "0123")
		require.NoError(t, err)
		require.Equal(t, "new", p.Name)
	})
}
