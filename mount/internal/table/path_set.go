package table

import (
	"slices"
	"sort"
	"strings"
)

// A pathSet counts paths, and finds one at or below a directory without comparing all. The
// zero value is empty.
type pathSet struct {
	total  int
	counts map[string]int // 0: a removed path that sorted or recent still holds
	sorted []string
	recent []string // paths outside sorted
}

// maxRecent bounds the unsorted paths, which a search compares one by one.
const maxRecent = 256

func (s *pathSet) add(p string) {
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	if _, known := s.counts[p]; !known {
		s.recent = append(s.recent, p)
	}
	s.counts[p]++
	s.total++
	if len(s.recent) > maxRecent {
		s.sortRecent()
	}
}

// remove reverts one add.
func (s *pathSet) remove(p string) {
	s.counts[p]--
	s.total--
}

// findBelow returns a path at or below dir.
func (s *pathSet) findBelow(dir string) (string, bool) {
	if s.counts[dir] > 0 {
		return dir, true
	}
	prefix := strings.TrimSuffix(dir, "/") + "/"
	for _, p := range s.sorted[sort.SearchStrings(s.sorted, prefix):] {
		if !strings.HasPrefix(p, prefix) {
			break
		}
		if s.counts[p] > 0 {
			return p, true
		}
	}
	for _, p := range s.recent {
		if strings.HasPrefix(p, prefix) && s.counts[p] > 0 {
			return p, true
		}
	}
	return "", false
}

// sortRecent merges the recent paths into the sorted ones, and forgets removed paths.
func (s *pathSet) sortRecent() {
	slices.Sort(s.recent)
	all := make([]string, 0, len(s.sorted)+len(s.recent))
	old, recent := s.sorted, s.recent
	for len(old) > 0 || len(recent) > 0 {
		from := &old
		if len(old) == 0 || len(recent) > 0 && recent[0] < old[0] {
			from = &recent
		}
		p := (*from)[0]
		*from = (*from)[1:]
		if s.counts[p] > 0 {
			all = append(all, p)
		} else {
			delete(s.counts, p)
		}
	}
	s.sorted, s.recent = all, nil
}
