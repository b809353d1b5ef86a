package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/internal/kubeserver"
)

// TestKubeAttachSituations compares the attachments with those of csi-attacher, the program of external-attacher.
func TestKubeAttachSituations(t *testing.T) {
	compareAttachments(attachSituations(), attachInterruptions, attachDifferences).run(t)
}

// TestKubeDriftSituations compares the attachments of a driver that lists its volumes with those of csi-attacher. Both
// programs list once a minute.
func TestKubeDriftSituations(t *testing.T) {
	compareAttachments(driftSituations, driftInterruptions, driftDifferences,
		csipb.ControllerServiceCapability_RPC_LIST_VOLUMES, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES).run(t)
}

// compareAttachments returns the comparison with a driver that has more capabilities of the controller service.
func compareAttachments(situations map[string]func(*attachScene), interruptions map[string]interruption[*attachScene], differences map[string]string,
	controller ...csipb.ControllerServiceCapability_RPC_Type,
) comparison[*attachScene] {
	return comparison[*attachScene]{
		peer: kubeserver.Attacher, situations: situations, interruptions: interruptions, differences: differences,
		open: func(a *arena) func(string) *attachScene {
			return openAttachScenes(a, newAttachingDriver(controller...))
		},
		probe: func(c *attachScene) { c.disk(); c.attach("a") }, sign: "attached true",
	}
}

// openAttachScenes serves a driver. Each scene has the nodes a and b.
func openAttachScenes(a *arena, driver *attachingDriver) func(name string) *attachScene {
	a.serve(driver)
	return func(name string) *attachScene {
		c := &attachScene{driver: driver}
		c.scene = a.newScene(name, c.lines)
		c.registerNode("a", "id-a")
		c.registerNode("b", "id-b")
		return c
	}
}

// An attachmentObject is a VolumeAttachment with the codes of its errors, which the type of the linked API lacks.
type attachmentObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              storagev1.VolumeAttachmentSpec
	Status            struct {
		Attached                 bool
		AttachmentMetadata       map[string]string
		AttachError, DetachError *attachmentError
	}
}

// An attachmentError is the error of a call for a VolumeAttachment.
type attachmentError struct {
	Message   string
	ErrorCode *int32
}

// listAttachments returns all VolumeAttachments.
func listAttachments(ctx context.Context, admin *kubernetes.Clientset) ([]attachmentObject, error) {
	text, err := admin.StorageV1().RESTClient().Get().Resource("volumeattachments").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list struct{ Items []attachmentObject }
	return list.Items, json.Unmarshal(text, &list)
}

// lines returns the states of the VolumeAttachments, of the volumes, and of the driver. Events are left out:
// external-attacher has none.
func (c *attachScene) lines() (lines []string) {
	now := c.snapshot()
	for _, va := range now.attachments {
		if c.has(va.Name) {
			lines = append(lines, attachmentText(&va))
		}
	}
	for _, pv := range now.volumes {
		if c.has(pv.Name) {
			lines = append(lines, fmt.Sprintf("volume: finalizers %v%s", pv.Finalizers, deletionText(pv.DeletionTimestamp)))
		}
	}
	c.driver.edit(c.name, func(v *attachingVolume) {
		lines = append(lines, fmt.Sprintf("driver: has published %v", v.published))
		for _, call := range v.calls {
			lines = append(lines, "driver: was asked to "+call)
		}
	})
	return lines
}

// has reports whether an object is one of the scene.
func (c *attachScene) has(object string) bool {
	return object == c.name || strings.HasPrefix(object, c.name+"-")
}

// attachmentText returns the state of a VolumeAttachment. The annotation with the volume handle, and the code of a failed
// detach, are left out: external-attacher has none.
func attachmentText(va *attachmentObject) string {
	annotations := maps.Clone(va.Annotations)
	delete(annotations, attachment.VolumeHandleAnnotation)
	text := fmt.Sprintf("attachment %s: attached %v %v, finalizers %v, annotations %v%s", va.Name, va.Status.Attached, va.Status.AttachmentMetadata,
		va.Finalizers, annotations, deletionText(va.DeletionTimestamp))
	if failed := va.Status.AttachError; failed != nil {
		text += ", attach failed" + failed.text()
		if failed.ErrorCode != nil {
			text += fmt.Sprint(", code ", *failed.ErrorCode)
		}
	}
	if failed := va.Status.DetachError; failed != nil {
		text += ", detach failed" + failed.text()
	}
	return text
}

func deletionText(at *metav1.Time) string {
	if at == nil {
		return ""
	}
	return ", deleted"
}

// text returns the parts that the texts of both programs have: the code and the message of the driver. It is empty for
// other errors.
func (e *attachmentError) text() string {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		if strings.Contains(e.Message, code.String()) && strings.Contains(e.Message, failure) {
			return fmt.Sprintf(" by the driver: %v: %s", code, failure)
		}
	}
	return ""
}
