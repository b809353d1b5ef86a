package clustertest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Cluster is an API server with the controllers that bind and protect. Its methods are those of users: they fail the test if the API
// server refuses a call, and if it does not show a result in time.
type Cluster struct {
	*testing.T
	API api.Cluster // of an administrator

	turn   int // of ProvisionerSteps
	mu     sync.Mutex
	events []string
}

// New binds and protects claims and volumes on an API server until the end of the test.
func New(t *testing.T, admin api.Cluster) *Cluster {
	c := &Cluster{T: t, API: admin}
	binder, err := bind.New(bind.Config{Cluster: admin})
	require.NoError(t, err)
	protector, err := protect.New(protect.Config{Cluster: admin})
	require.NoError(t, err)
	c.Start(binder.Run)
	c.Start(protector.Run)
	return c
}

// Start runs a part of the cluster until stop is called, at the latest at the end of the test. An error of
// the part fails the test.
func (c *Cluster) Start(part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(c, <-ended)
	})
	c.Cleanup(stop)
	return stop
}

// Eventually requires that a condition holds within a minute.
func (c *Cluster) Eventually(what string, condition func() bool) {
	c.Helper()
	require.Eventually(c, condition, time.Minute, 5*time.Millisecond, what)
}

// Record records an event of a controller.
func (c *Cluster) Record(e api.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e.Reason+" "+e.Message)
}

// CountEvents returns the number of events whose reason and message contain all parts.
func (c *Cluster) CountEvents(parts ...string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, event := range c.events {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(event, part) }) {
			n++
		}
	}
	return n
}

// RequireEvent waits for an event whose reason and message contain all parts.
func (c *Cluster) RequireEvent(parts ...string) {
	c.Helper()
	c.Eventually("no event "+strings.Join(parts, " "), func() bool { return c.CountEvents(parts...) > 0 })
}

// RequireEndpoints waits until a program serves metrics with a name, and its health.
func (c *Cluster) RequireEndpoints(address net.Addr, metric string) {
	c.Helper()
	for path, want := range map[string]string{"/metrics": metric, "/healthz": "ok"} {
		c.Eventually(path+" lacks "+want, func() bool {
			response, err := http.Get("http://" + address.String() + path)
			if err != nil {
				return false
			}
			text, err := io.ReadAll(response.Body)
			return errors.Join(err, response.Body.Close()) == nil && response.StatusCode == http.StatusOK && strings.Contains(string(text), want)
		})
	}
}

// NewClass returns a class of a provisioner.
func NewClass(name, provisioner string, parameters map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, Parameters: parameters}
}

// CreateClass creates a class.
func (c *Cluster) CreateClass(class *storagev1.StorageClass) *storagev1.StorageClass {
	c.Helper()
	class, err := c.API.StorageClasses().Create(c.Context(), class, metav1.CreateOptions{})
	require.NoError(c, err)
	return class
}

// CreateNode creates a Node with a hostname.
func (c *Cluster) CreateNode(name, hostname string) {
	c.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: hostname}}}
	_, err := c.API.Nodes().Create(c.Context(), node, metav1.CreateOptions{})
	require.NoError(c, err)
}

// CreateClaim creates a claim of a class, after a change, with the binder's request for the provisioner.
func (c *Cluster) CreateClaim(name, size string, class *storagev1.StorageClass, change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c.Helper()
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provision.ProvisionerAnnotation: class.Provisioner}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	change(claim)
	claim, err := c.API.PersistentVolumeClaims(v1.NamespaceDefault).Create(c.Context(), claim, metav1.CreateOptions{})
	require.NoError(c, err)
	return claim
}

// OnNode selects the node of a claim, as the scheduler does.
func OnNode(node string) func(*v1.PersistentVolumeClaim) {
	return func(claim *v1.PersistentVolumeClaim) { claim.Annotations[provision.SelectedNodeAnnotation] = node }
}

// volumeOf returns the volume that was provisioned for a claim.
func (c *Cluster) volumeOf(claim *v1.PersistentVolumeClaim) (*v1.PersistentVolume, error) {
	return c.API.PersistentVolumes().Get(c.Context(), "pvc-"+string(claim.UID), metav1.GetOptions{})
}

// WaitUntilBound returns the volume of a claim once both are bound.
func (c *Cluster) WaitUntilBound(claim *v1.PersistentVolumeClaim) (pv *v1.PersistentVolume) {
	c.Helper()
	c.Eventually("claim "+claim.Name+" is not bound", func() bool {
		current, err := c.API.PersistentVolumeClaims(claim.Namespace).Get(c.Context(), claim.Name, metav1.GetOptions{})
		if err != nil || current.Status.Phase != v1.ClaimBound {
			return false
		}
		pv, err = c.volumeOf(claim)
		return err == nil && pv.Status.Phase == v1.VolumeBound
	})
	return pv
}

// Release deletes a claim that no pod uses, and waits until the binder has released its volume.
func (c *Cluster) Release(claim *v1.PersistentVolumeClaim) {
	c.Helper()
	require.NoError(c, c.API.PersistentVolumeClaims(claim.Namespace).Delete(c.Context(), claim.Name, metav1.DeleteOptions{}))
	c.Eventually("the volume of claim "+claim.Name+" is not released", func() bool {
		pv, err := c.volumeOf(claim)
		return apierrors.IsNotFound(err) || err == nil && pv.Status.Phase == v1.VolumeReleased
	})
}

// WaitUntilDeleted waits for the end of the volume of a claim.
func (c *Cluster) WaitUntilDeleted(claim *v1.PersistentVolumeClaim) {
	c.Helper()
	c.Eventually("the volume of claim "+claim.Name+" exists", func() bool {
		_, err := c.volumeOf(claim)
		return apierrors.IsNotFound(err)
	})
}
