package node_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// check checks the volumes of the running containers, and that the source has their pods.
func (s *simulation) check() {
	mounts := s.mountPoints()
	for _, l := range s.node.running() {
		for _, v := range l.pod.Spec.Volumes {
			s.checkVolume(l, v, mounts)
		}
	}
	if s.server != nil { // otherwise the program is not idle
		s.checkMounts(mounts)
	}
	s.updateWanted()
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	for _, l := range s.node.running() {
		if s.node.program == nil {
			continue
		}
		if _, err := s.node.program.source.Pod(ended, l.pod.UID); volume.IsNotFound(err) {
			s.fail("the source lacks pod %s, which has containers", l.pod.Name)
		}
	}
}

// mountPoints returns the targets of all mounts.
func (s *simulation) mountPoints() (targets []string) {
	table, err := s.node.kernel.List(s.ctx)
	s.must(err)
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, s.node.root+"/") {
			targets = append(targets, info.Mountpoint)
		}
	}
	return targets
}

// checkVolume checks that a volume of running containers is the one that they have opened, with its
// files.
func (s *simulation) checkVolume(l *simLocal, v v1.Volume, mounts []string) {
	pin := l.pins[v.Name]
	if pin == nil {
		return // reported when the containers started
	}
	path := pin.Name()
	opened, err := pin.Stat()
	s.must(err)
	if now, err := os.Stat(path); err != nil || !os.SameFile(opened, now) {
		s.fail("volume %s of pod %s is not the one that its containers have: %v", v.Name, l.pod.Name, err)
	}
	if v.EmptyDir == nil && v.ConfigMap == nil && !slices.Contains(mounts, path) {
		s.fail("volume %s of pod %s is not mounted", v.Name, l.pod.Name)
	}
	if v.EmptyDir != nil {
		if text, err := os.ReadFile(filepath.Join(path, simData)); err != nil || string(text) != string(l.pod.UID) {
			s.fail("the data of pod %s is lost: %q, %v", l.pod.Name, text, err)
		}
	}
	if key := contentOf(v); key != "" {
		if text := s.contentAt(path); text != "" && !slices.Contains(s.values[key], text) || text == "" && v.Projected == nil {
			s.fail("volume %s of pod %s has %q", v.Name, l.pod.Name, text)
		}
	}
	if v.Projected != nil {
		if _, err := expiry(path); err != nil {
			s.fail("volume %s of pod %s has no token: %v", v.Name, l.pod.Name, err)
		}
	}
}

// contentOf returns the key in simulation.values of the object that a volume shows, or "".
func contentOf(v v1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return simContentKey(false, v.ConfigMap.Name)
	case v.Secret != nil:
		return simContentKey(true, v.Secret.SecretName)
	case v.Projected != nil:
		return simContentKey(false, v.Projected.Sources[1].ConfigMap.Name)
	}
	return ""
}

// contentAt returns the value in a volume, and "" if there is none.
func (s *simulation) contentAt(path string) string {
	text, err := os.ReadFile(filepath.Join(path, simData))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.must(err)
	}
	return string(text)
}

// expiry returns the time at which the token in a volume expires.
func expiry(path string) (time.Time, error) {
	text, err := os.ReadFile(filepath.Join(path, "token"))
	if err != nil {
		return time.Time{}, err
	}
	parts := strings.Split(string(text), ".")
	if len(parts) != 3 {
		return time.Time{}, errors.New("not a token: " + string(text))
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, err
	}
	var token struct {
		Expires int64 `json:"exp"`
	}
	err = json.Unmarshal(claims, &token)
	return time.Unix(token.Expires, 0), err
}
