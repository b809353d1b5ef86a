package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/internal/rootlock"
)

// leftovers returns the objects, mounts, directories and files of pods and volumes, or "".
func (c *processCluster) leftovers() string {
	for _, find := range []func() (string, error){c.leftObjects, c.leftOnNodes, c.leftMounts, c.leftDevices, c.leftDirs, c.leftFiles} {
		if left, err := find(); left != "" || err != nil {
			return left + errorText(err)
		}
	}
	return ""
}

// leftObjects returns the numbers of pods, claims, volumes and attachments, or "".
func (c *processCluster) leftObjects() (string, error) {
	ctx, options := c.Context(), metav1.ListOptions{}
	pods, err := c.Admin.CoreV1().Pods("").List(ctx, options)
	if err != nil {
		return "", err
	}
	claims, err := c.Admin.CoreV1().PersistentVolumeClaims("").List(ctx, options)
	if err != nil {
		return "", err
	}
	volumes, err := c.Admin.CoreV1().PersistentVolumes().List(ctx, options)
	if err != nil {
		return "", err
	}
	attachments, err := c.Admin.StorageV1().VolumeAttachments().List(ctx, options)
	if n := []int{len(pods.Items), len(claims.Items), len(volumes.Items), len(attachments.Items)}; err == nil && slices.Max(n) > 0 {
		return fmt.Sprintf("pods, claims, volumes, attachments: %d", n), nil
	}
	return "", err
}

// leftOnNodes returns a node that has volumes attached or in use, or "".
func (c *processCluster) leftOnNodes() (string, error) {
	nodes, err := c.Admin.CoreV1().Nodes().List(c.Context(), metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, node := range nodes.Items {
		if s := node.Status; len(s.VolumesAttached)+len(s.VolumesInUse) > 0 {
			return fmt.Sprintf("%s has %v attached, %v in use", node.Name, s.VolumesAttached, s.VolumesInUse), nil
		}
	}
	return "", nil
}

// leftMounts returns all mounts, or "".
func (c *processCluster) leftMounts() (string, error) {
	mounts, err := mountsBelow(c.Context(), c.dir, "")
	var all []string
	for _, m := range mounts {
		all = append(all, m.Mountpoint)
	}
	return joinPaths("mounts", all), err
}

// rooms match the entries of directories that are empty without pods and volumes.
var rooms = []string{
	"claims/[^.]*", "claims/.volumekit/*/*", "disks/[^.]*", "node-*/root/plugins/*/plugins/*/*/mounts/*",
	"node-*/root/pods/*", "node-*/root/plugins/*/pods/*", "node-*/root/plugins/volumekit.io/manager/*/*",
	"node-*/root/plugins/kubernetes.io/csi/*.*/*", "node-*/root/plugins/kubernetes.io/csi/volumeDevices/*-*",
	"node-*/root/plugins/kubernetes.io/csi/volumeDevices/*/*",
}

// leftDirs returns the directories of pods and volumes, or "".
func (c *processCluster) leftDirs() (string, error) {
	var all []string
	for _, room := range rooms {
		found, err := filepath.Glob(filepath.Join(c.dir, room))
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	return joinPaths("directories", all), nil
}

// leftFiles returns the files apart from the locks of agents, or "". A killed program leaves files that it has not
// completed.
func (c *processCluster) leftFiles() (string, error) {
	var all []string
	err := filepath.WalkDir(c.dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && !strings.HasSuffix(name, ".new") && entry.Name() != rootlock.Name {
			all = append(all, name)
		}
		return ignoreMissing(err)
	})
	return joinPaths("files", all), err
}

// joinPaths returns paths as a text, "" if there are none.
func joinPaths(kind string, paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return kind + ": " + strings.Join(paths, " ")
}

// logObjects logs the objects and the events of the cluster.
func (c *processCluster) logObjects() {
	ctx, options := context.Background(), metav1.ListOptions{}
	if list, err := c.Admin.CoreV1().Pods("").List(ctx, options); err == nil {
		for _, o := range list.Items {
			c.Logf("pod %s on %s", o.Name, o.Spec.NodeName)
		}
	}
	if list, err := c.Admin.CoreV1().PersistentVolumeClaims("").List(ctx, options); err == nil {
		for _, o := range list.Items {
			c.Logf("claim %s: deleted %v, %s %v, volume %q, status %+v", o.Name, o.DeletionTimestamp, o.Finalizers, o.Annotations, o.Spec.VolumeName, o.Status)
		}
	}
	if list, err := c.Admin.CoreV1().PersistentVolumes().List(ctx, options); err == nil {
		for _, o := range list.Items {
			c.Logf("volume %s: deleted %v, %s %v, claim %+v, status %+v", o.Name, o.DeletionTimestamp, o.Finalizers, o.Annotations, o.Spec.ClaimRef, o.Status)
		}
	}
	if list, err := c.Admin.StorageV1().VolumeAttachments().List(ctx, options); err == nil {
		for _, o := range list.Items {
			c.Logf("attachment %s: deleted %v, %s %v, volume %s, node %s, status %+v", o.Name, o.DeletionTimestamp, o.Finalizers, o.Annotations, *o.Spec.Source.PersistentVolumeName, o.Spec.NodeName, o.Status)
		}
	}
	if list, err := c.Admin.CoreV1().Nodes().List(ctx, options); err == nil {
		for _, o := range list.Items {
			c.Logf("node %s: attached %v, in use %v", o.Name, o.Status.VolumesAttached, o.Status.VolumesInUse)
		}
	}
	if list, err := c.Admin.CoreV1().Events("").List(ctx, options); err == nil {
		for _, o := range list.Items {
			c.Logf("event %s %s %s %d times: %s", o.LastTimestamp.Format("15:04:05"), o.InvolvedObject.Name, o.Reason, o.Count, o.Message)
		}
	}
}
