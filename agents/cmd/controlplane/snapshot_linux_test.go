package main

import (
	"context"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A snapshot holds all objects of an API server that situations describe, at about one time.
type snapshot struct {
	at          time.Time // of the begin
	claims      []v1.PersistentVolumeClaim
	volumes     []v1.PersistentVolume
	nodes       []v1.Node
	attachments []storagev1.VolumeAttachment
	events      []v1.Event
}

// snapshots holds the last snapshot, for all situations: one list for each of them would keep the machine busy.
type snapshots struct {
	mu   sync.Mutex
	last snapshot
}

// snapshot returns a state of the API server that is hardly older than the call.
func (a *arena) snapshot() snapshot {
	a.seen.mu.Lock()
	defer a.seen.mu.Unlock()
	if time.Since(a.seen.last.at) >= a.quiet/30 {
		a.seen.last = a.list(a.ctx)
	}
	return a.seen.last
}

// list reads all objects. After an error it returns the objects that it has read.
func (a *arena) list(ctx context.Context) snapshot {
	s, all := snapshot{at: time.Now()}, metav1.ListOptions{}
	if list, err := a.cluster.PersistentVolumeClaims("").List(ctx, all); a.isListed(err) {
		s.claims = list.Items
	}
	if list, err := a.cluster.PersistentVolumes().List(ctx, all); a.isListed(err) {
		s.volumes = list.Items
	}
	if list, err := a.cluster.Nodes().List(ctx, all); a.isListed(err) {
		s.nodes = list.Items
	}
	if list, err := a.cluster.VolumeAttachments().List(ctx, all); a.isListed(err) {
		s.attachments = list.Items
	}
	if list, err := a.clientset.CoreV1().Events("").List(ctx, all); a.isListed(err) {
		s.events = list.Items
	}
	return s
}

func (a *arena) isListed(err error) bool {
	if err != nil && a.ctx.Err() == nil {
		a.Error(err)
	}
	return err == nil
}

// claims returns the claims of the scene, and volumes its volumes.
func (c *scene) claims() (claims []v1.PersistentVolumeClaim) {
	for _, claim := range c.snapshot().claims {
		if claim.Namespace == c.namespace {
			claims = append(claims, claim)
		}
	}
	return claims
}

func (c *scene) volumes() (volumes []v1.PersistentVolume) {
	for _, pv := range c.snapshot().volumes {
		if strings.HasPrefix(pv.Name, c.prefix) {
			volumes = append(volumes, pv)
		}
	}
	return volumes
}
