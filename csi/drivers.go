package csi

import (
	"context"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Drivers finds the drivers that are registered on the node. registration.Watcher is one.
type Drivers interface {
	// Driver returns the registered driver of a name. ok is false if no driver of the name is
	// registered now.
	Driver(name string) (d Driver, ok bool)
}

// A Driver is a registered CSI driver.
type Driver struct {
	Name     string // of the driver, such as "nfs.csi.k8s.io"
	Endpoint string // path of the Unix socket of its services
	// Conn is a connection to a driver in the same process, which has no socket. Nil: the driver is
	// at Endpoint. A call that does not end with its context is left behind, and its outcome is unknown.
	Conn grpc.ClientConnInterface
	// Registration is different for each registration of the name. The plugin connects again and
	// asks for the capabilities again after a new registration.
	Registration uint64
	// NodeID is the name of this node in calls of the driver's controller.
	NodeID string
}

// A DriverObjectGetter returns CSIDriver objects.
type DriverObjectGetter interface {
	// GetCSIDriver returns the object of a driver. For a driver without an object the error
	// satisfies apierrors.IsNotFound, and the defaults of the API hold.
	GetCSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error)
}

// An AttachmentReader reads the attachments of one node. node.VolumeAttachments of module
// controllers is one.
type AttachmentReader interface {
	// WaitForAttachment waits until the volume is attached, and returns the publish context for
	// its driver, which may be empty. An error that the driver reports ends the wait once.
	WaitForAttachment(ctx context.Context, driver, handle string) (metadata map[string]string, err error)
	// IsAttached returns the last known state of a volume that WaitForAttachment has returned, or
	// waits for; known is false for other volumes.
	IsAttached(driver, handle string) (attached, known bool)
	// ReleaseAttachment ends the interest in a volume.
	ReleaseAttachment(driver, handle string)
}

// A SecretGetter returns Secrets.
type SecretGetter interface {
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// A TokenGetter returns tokens for the service account of a pod. It caches and renews them, as
// content.TokenGetter describes.
type TokenGetter interface {
	GetServiceAccountToken(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error)
}
