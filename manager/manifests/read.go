package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// errUnsettled is the error of a first read while a file is being written.
var errUnsettled = errors.New("manifests: files are being written")

// unsettledTimeout limits the wait for files that are being written.
const unsettledTimeout = 5 * time.Second

// readInTime runs read until ctx ends. One call reads the directory at a time, also after
// its context has ended: a file system that does not answer costs one stuck call.
func (s *Source) readInTime(ctx context.Context) (wait time.Duration, err error) {
	wait, _, err = keylock.Await(ctx, s.reading.Key(""), ctxend.Kernel, s.readDir, nil)
	return wait, err
}

// readDir reads the changes in the directory. It returns wait > 0 if some files must be read
// later. Only this call writes the fields that it writes under mu; it holds mu for those
// writes alone.
func (s *Source) readDir() (wait time.Duration, err error) {
	names, err := s.listManifests()
	if err != nil {
		s.recordFailure(err)
		return 0, err
	}
	files, wait := s.updateFiles(names)
	if s.firstRead.IsZero() {
		s.firstRead = time.Now()
	}
	if s.current == nil && wait > 0 && time.Since(s.firstRead) < unsettledTimeout {
		s.files = files
		return wait, errUnsettled
	}
	if s.current == nil {
		if err := firstLostCopy(files); err != nil {
			s.files = files
			s.reportAll(problemsOf(files))
			return cmp.Or(wait, s.config.Poll), err
		}
	}
	if s.current != nil && !s.isFailed && maps.EqualFunc(files, s.files, sameContent) {
		s.files = files
		return wait, nil
	}
	s.install(files)
	return wait, nil
}

func (s *Source) reportAll(problems []Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportNew(problems)
}

// updateFiles returns the new states of the files.
func (s *Source) updateFiles(names map[string]bool) (files map[string]file, wait time.Duration) {
	files = map[string]file{}
	for name := range names {
		f, w := s.files[name].update(s.config.Dir, name, s.config.Settle, s.copies)
		files[name], wait = f, max(wait, w)
	}
	for name, f := range s.files {
		if names[name] {
			continue
		}
		if f, w := f.markMissing(s.config.Settle); w > 0 {
			files[name], wait = f, max(wait, w)
		}
	}
	return files, wait
}

func sameContent(a, b file) bool {
	return a.sum == b.sum && len(a.documents) == len(b.documents) && reflect.DeepEqual(a.problem, b.problem) &&
		reflect.DeepEqual(a.lostCopy, b.lostCopy)
}

// listManifests returns the names of the manifests in the directory.
func (s *Source) listManifests() (map[string]bool, error) {
	entries, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return nil, brief.Of(fmt.Errorf("manifests: %w", err))
	}
	names := map[string]bool{}
	for _, entry := range entries {
		if isManifest(entry.Name()) {
			names[entry.Name()] = true
		}
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("manifests: %s: must have at most %d manifests, got %d", s.config.Dir, maxFiles, len(names))
	}
	return names, nil
}

// problemsOf returns the problems of the files, sorted by name.
func problemsOf(files map[string]file) []Problem {
	var all []Problem
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, p := range []*Problem{files[name].problem, files[name].lostCopy} {
			if p != nil {
				all = append(all, *p)
			}
		}
	}
	return all
}

// firstLostCopy returns an error if the last valid content of a file is lost. The pods of the file must
// not count as removed: they would be torn down.
func firstLostCopy(files map[string]file) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if p := files[name].lostCopy; p != nil {
			return brief.Of(fmt.Errorf("manifests: %w", *p))
		}
	}
	return nil
}

// install makes files the current state, and reports changes.
func (s *Source) install(files map[string]file) {
	var sorted []file
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sorted = append(sorted, files[name])
	}
	problems := problemsOf(files)
	if err := s.copies.removeStale(files); err != nil {
		problems = append(problems, Problem{Err: err})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.isFailed = files, false
	last, next := s.current, combineFiles(sorted, s.config.Node)
	change := next.reuse(last)
	s.current = next
	s.reportNew(append(problems, next.problems...))
	if last != nil {
		if pods := withOtherContent(last, next); len(pods) > 0 {
			s.config.ContentChanged(pods)
		}
	}
	s.publish(change)
}

// recordFailure records that the directory cannot be read. Its last content counts.
func (s *Source) recordFailure(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isFailed = true
	s.reportNew([]Problem{{Err: err}})
}

// reportNew reports new problems. The caller holds mu.
func (s *Source) reportNew(now []Problem) {
	known := map[string]bool{}
	for _, p := range s.problems {
		known[p.Error()] = true
	}
	s.problems = now
	for _, p := range now {
		if !known[p.Error()] {
			s.config.Report(p)
		}
	}
}

// withOtherContent returns the pods whose ConfigMaps or Secrets have changed.
func withOtherContent(before, after *objects) []types.UID {
	changed := map[string]bool{}
	addChanged(changed, "ConfigMap/", before.configMaps, after.configMaps)
	addChanged(changed, "Secret/", before.secrets, after.secrets)
	var pods []types.UID
	for _, pod := range after.pods {
		if slices.ContainsFunc(contentsOf(pod), func(name string) bool { return changed[name] }) {
			pods = append(pods, pod.UID)
		}
	}
	return pods
}

// addChanged adds the names of added, changed and removed objects.
func addChanged[T comparable](changed map[string]bool, kind string, before, after map[types.NamespacedName]T) {
	for name, object := range after {
		changed[kind+name.String()] = before[name] != object && !reflect.DeepEqual(before[name], object)
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			changed[kind+name.String()] = true
		}
	}
}

// contentsOf returns the ConfigMaps and Secrets in the volumes of a pod.
func contentsOf(pod *v1.Pod) []string {
	var all []string
	config := func(name string) { all = append(all, "ConfigMap/"+pod.Namespace+"/"+name) }
	secret := func(name string) { all = append(all, "Secret/"+pod.Namespace+"/"+name) }
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			config(v.ConfigMap.Name)
		case v.Secret != nil:
			secret(v.Secret.SecretName)
		case v.Projected != nil:
			for _, p := range v.Projected.Sources {
				if p.ConfigMap != nil {
					config(p.ConfigMap.Name)
				}
				if p.Secret != nil {
					secret(p.Secret.Name)
				}
			}
		}
	}
	return all
}
