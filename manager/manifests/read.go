package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// errUnsettled: nothing was ever read, and a file is just being written.
var errUnsettled = errors.New("manifests: files are being written")

// patience is how long it is waited for that at most.
const patience = 5 * time.Second

// read reads what has changed in the directory. Wait is not 0 if some of it could not
// be read yet.
func (s *Source) read() (wait time.Duration, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	names, err := s.names()
	if err != nil {
		s.failed(err)
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	files, wait := s.update(names)
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	if s.current == nil && wait > 0 && time.Since(s.begun) < patience {
		s.files = files
		return wait, errUnsettled
	}
	if s.current == nil {
		if err := lost(files); err != nil {
			s.files = files
			s.report(problemsOf(files))
			return cmp.Or(wait, s.config.Poll), err
		}
	}
	changed := s.current == nil || s.isFailed || !maps.EqualFunc(files, s.files, sameContent)
	s.files, s.isFailed = files, false
	if changed {
		s.install()
	}
	return wait, nil
}

// update returns what is known of the files now.
func (s *Source) update(names map[string]bool) (files map[string]file, wait time.Duration) {
	files = map[string]file{}
	for name := range names {
		f, w := s.files[name].update(s.config.Dir, name, s.config.Settle, s.keep)
		files[name], wait = f, max(wait, w)
	}
	for name, f := range s.files {
		if names[name] {
			continue
		}
		if f, w := f.missing(s.config.Settle); w > 0 {
			files[name], wait = f, max(wait, w)
		}
	}
	return files, wait
}

func sameContent(a, b file) bool {
	return a.sum == b.sum && len(a.documents) == len(b.documents) && reflect.DeepEqual(a.problem, b.problem) &&
		reflect.DeepEqual(a.lost, b.lost)
}

// names returns the names of the manifests in the directory.
func (s *Source) names() (map[string]bool, error) {
	entries, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return nil, fmt.Errorf("manifests: %w", err)
	}
	names := map[string]bool{}
	for _, entry := range entries {
		if isManifest(entry.Name()) {
			names[entry.Name()] = true
		}
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("manifests: %s: %d manifests, and there may be %d", s.config.Dir, len(names), maxFiles)
	}
	return names, nil
}

// problemsOf returns those of the files, sorted by name.
func problemsOf(files map[string]file) []Problem {
	var all []Problem
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, p := range []*Problem{files[name].problem, files[name].lost} {
			if p != nil {
				all = append(all, *p)
			}
		}
	}
	return all
}

// lost is an error if it is not known what files held when they were last in order.
// Nobody may take that for nothing: the pods that are missing would be taken down.
func lost(files map[string]file) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if p := files[name].lost; p != nil {
			return fmt.Errorf("manifests: %w", *p)
		}
	}
	return nil
}

// install makes the files what counts. The caller holds mu.
func (s *Source) install() {
	var sorted []file
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		sorted = append(sorted, s.files[name])
	}
	problems := problemsOf(s.files)
	if err := s.keep.prune(s.files); err != nil {
		problems = append(problems, Problem{Err: err})
	}
	last, next := s.current, collect(sorted, s.config.Node)
	s.current = next
	s.report(append(problems, next.problems...))
	if last != nil {
		if pods := withOtherContent(last, next); len(pods) > 0 {
			s.config.ContentChanged(pods)
		}
	}
	poke(s.changed)
}

// failed notes that the directory cannot be read. What it held counts.
func (s *Source) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isFailed = true
	s.report([]Problem{{Err: err}})
}

// report tells of problems that are new. The caller holds mu.
func (s *Source) report(now []Problem) {
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

// withOtherContent returns the pods whose config maps or secrets have changed.
func withOtherContent(before, after *objects) []types.UID {
	changed := map[string]bool{}
	noteChanged(changed, "ConfigMap/", before.configMaps, after.configMaps)
	noteChanged(changed, "Secret/", before.secrets, after.secrets)
	var pods []types.UID
	for _, pod := range after.pods {
		if slices.ContainsFunc(contentsOf(pod), func(name string) bool { return changed[name] }) {
			pods = append(pods, pod.UID)
		}
	}
	return pods
}

// noteChanged notes what has come, changed or gone.
func noteChanged[T comparable](changed map[string]bool, kind string, before, after map[types.NamespacedName]T) {
	for name, object := range after {
		changed[kind+name.String()] = before[name] != object && !reflect.DeepEqual(before[name], object)
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			changed[kind+name.String()] = true
		}
	}
}

// contentsOf returns what the volumes of a pod show.
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
