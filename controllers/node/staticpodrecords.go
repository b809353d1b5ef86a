package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// staticPodRecords are the identities of static pods by their UIDs, in a directory: a symbolic link for each UID, whose
// text is NAMESPACE/NAME/UID, with the UID of the mirror pod itself, if that is known. A link is written and read in one call, so that no record is incomplete.
type staticPodRecords struct {
	dir    string // empty: nothing is recorded
	logger *slog.Logger
	pods   map[types.UID]identity
}

// readKnown reads which pods have which UIDs, by the records and by the local pods.
func (s *Source) readKnown() error {
	s.updating.Lock()
	defer s.updating.Unlock()
	var err error
	if s.staticPods, err = openStaticPodRecords(s.config.StaticPods, s.config.Logger); err != nil {
		return err
	}
	for uid, pod := range s.staticPods.pods {
		s.known[uid] = pod
	}
	for _, pod := range s.config.LocalPods {
		if s.known[pod.UID].name != api.KeyOf(pod) || !isStatic(pod) {
			s.known[pod.UID] = identity{name: api.KeyOf(pod), isStatic: isStatic(pod)}
		}
	}
	return nil
}

// openStaticPodRecords reads the records of a directory, which it creates if it is missing. Entries that are no
// records stay, with a warning.
func openStaticPodRecords(dir string, logger *slog.Logger) (staticPodRecords, error) {
	r := staticPodRecords{dir: dir, logger: logger, pods: map[types.UID]identity{}}
	if dir == "" {
		return r, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return r, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return r, err
	}
	for _, entry := range entries {
		pod, err := readStaticPodRecord(filepath.Join(dir, entry.Name()))
		if err != nil {
			logger.Warn("record of a static pod ignored", "err", err)
			continue
		}
		r.pods[types.UID(entry.Name())] = pod
	}
	return r, nil
}

func readStaticPodRecord(path string) (identity, error) {
	text, err := os.Readlink(path)
	if err != nil {
		return identity{}, err
	}
	return parseStaticPodRecord(text)
}

// parseStaticPodRecord returns the identity in the text of a record.
func parseStaticPodRecord(text string) (identity, error) {
	namespace, rest, _ := strings.Cut(text, "/")
	name, object, _ := strings.Cut(rest, "/")
	at := field.NewPath("metadata")
	err := cmp.Or(volume.ValidatePathComponent(at.Child("namespace"), namespace), volume.ValidatePathComponent(at.Child("name"), name))
	if err == nil && object != "" {
		err = volume.ValidatePathComponent(at.Child("uid"), object)
	}
	return identity{api.Key{Namespace: namespace, Name: name}, types.UID(object), true}, err
}

// put records a static pod. After a failure the source itself still knows it, and the next state of the pod is recorded.
func (r *staticPodRecords) put(uid types.UID, pod identity) {
	if r.dir == "" || r.pods[uid] == pod {
		return
	}
	if err := cmp.Or(r.write(uid, pod), r.sync()); err != nil {
		r.logger.Warn("static pod not recorded", "namespace", pod.name.Namespace, "pod", pod.name.Name, "uid", uid, "err", err)
		return
	}
	r.pods[uid] = pod
}

// write replaces what is at the name of a record. The new link is beside the directory before: any name in it is a UID.
func (r *staticPodRecords) write(uid types.UID, pod identity) error {
	link := r.dir + ".new"
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(pod.name.Namespace+"/"+pod.name.Name+"/"+string(pod.object), link); err != nil {
		return err
	}
	return os.Rename(link, r.path(uid))
}

// remove removes the record of a UID, if there is one.
func (r *staticPodRecords) remove(uid types.UID) {
	if _, ok := r.pods[uid]; !ok {
		return
	}
	delete(r.pods, uid)
	if err := os.Remove(r.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.logger.Warn("record of a static pod not removed", "uid", uid, "err", err)
	}
}

func (r *staticPodRecords) path(uid types.UID) string { return filepath.Join(r.dir, string(uid)) }

// sync makes the records last across a loss of power.
func (r *staticPodRecords) sync() error {
	dir, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", r.dir, err)
	}
	return nil
}
