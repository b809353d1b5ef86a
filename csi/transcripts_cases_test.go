package csi_test

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
)

// argumentTranscripts show the arguments of calls: of each kind of volume, for each property of the
// driver, its CSIDriver object and the volume.
var argumentTranscripts = []transcript{
	{name: "a staged volume", driver: "stage", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4} access_mode={mode=SINGLE_NODE_WRITER}}
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability={mount={fs_type=ext4} access_mode={mode=SINGLE_NODE_WRITER}}
unpublish a
  NodeUnpublishVolume volume_id=v target_path=TARGET-A
unstage
  NodeUnstageVolume volume_id=v staging_target_path=STAGING
`},
	// A kubelet creates the staging directory all the same.
	{name: "a volume that is only published", script: `
stage: no device mount
  NodeGetCapabilities
publish a
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4} access_mode={mode=SINGLE_NODE_WRITER}}
unpublish a
  NodeUnpublishVolume volume_id=v target_path=TARGET-A
unstage
`},
	{name: "an inline volume", driver: "stage", object: "ephemeral", volume: "inline", script: `
stage: no device mount
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability=CAPABILITY
publish b
  NodePublishVolume volume_id=INLINE-B target_path=TARGET-B volume_capability=CAPABILITY
unpublish a
  NodeUnpublishVolume volume_id=INLINE-A target_path=TARGET-A
unpublish b
  NodeUnpublishVolume volume_id=INLINE-B target_path=TARGET-B
`},
	{name: "a block volume", driver: "stage", volume: "block", script: `
setup
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING-DEVICE volume_capability={block={} access_mode={mode=SINGLE_NODE_WRITER}}
map a
  NodePublishVolume volume_id=v staging_target_path=STAGING-DEVICE target_path=DEVICE-A volume_capability={block={} access_mode={mode=SINGLE_NODE_WRITER}}
unmap a
  NodeUnpublishVolume volume_id=v target_path=DEVICE-A
teardown
  NodeUnstageVolume volume_id=v staging_target_path=STAGING-DEVICE
`},
	// A kubelet passes the staging path also to a driver that does not stage.
	{name: "a block volume that is only published", volume: "block", script: `
setup
  NodeGetCapabilities
map a
  NodePublishVolume volume_id=v target_path=DEVICE-A volume_capability=BLOCK
unmap a
  NodeUnpublishVolume volume_id=v target_path=DEVICE-A
teardown
`},
	{name: "an empty file system type", driver: "stage", volume: "fs=", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={} access_mode={mode=SINGLE_NODE_WRITER}}
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability={mount={} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "a read-only source", driver: "stage", volume: "ro ROX", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4} access_mode={mode=MULTI_NODE_READER_ONLY}}
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability={mount={fs_type=ext4} access_mode={mode=MULTI_NODE_READER_ONLY}} readonly=true
`},
	{name: "a read-only inline source", object: "ephemeral", volume: "inline ro", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability=CAPABILITY readonly=true
`},
	{name: "a read-only pod", script: `
publish a ro
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
`},
	{name: "a read-only block volume", volume: "block ro", script: `
map a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=DEVICE-A volume_capability=BLOCK readonly=true
`},
	{name: "mount options", driver: "stage", volume: "options=noatime,nobarrier", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4 mount_flags=[noatime nobarrier]} access_mode={mode=SINGLE_NODE_WRITER}}
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability={mount={fs_type=ext4 mount_flags=[noatime nobarrier]} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "mount options of a block volume", driver: "stage", volume: "block options=noatime", script: `
setup
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING-DEVICE volume_capability=BLOCK
map a
  NodePublishVolume volume_id=v staging_target_path=STAGING-DEVICE target_path=DEVICE-A volume_capability=BLOCK
`},
	{name: "attributes", driver: "stage", volume: "attributes=share=/data,server=nas", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY volume_context={server=nas share=/data}
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY volume_context={server=nas share=/data}
`},
	{name: "attributes of an inline volume", object: "ephemeral", volume: "inline attributes=size=1Gi", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability=CAPABILITY volume_context={size=1Gi}
`},
	{name: "pod info", driver: "stage", object: "pod-info", volume: "attributes=share=/data", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY volume_context={share=/data}
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY volume_context={K8S/ephemeral=false K8S/pod.name=pod-a K8S/pod.namespace=space K8S/pod.uid=uid-a K8S/serviceAccount.name=account share=/data}
`},
	{name: "pod info of an inline volume", object: "pod-info ephemeral persistent", volume: "inline", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability=CAPABILITY volume_context={K8S/ephemeral=true K8S/pod.name=pod-a K8S/pod.namespace=space K8S/pod.uid=uid-a K8S/serviceAccount.name=account}
`},
	{name: "pod info of a block volume", object: "pod-info tokens=vault", volume: "block", script: `
map a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=DEVICE-A volume_capability=BLOCK volume_context={K8S/ephemeral=false K8S/pod.name=pod-a K8S/pod.namespace=space K8S/pod.uid=uid-a K8S/serviceAccount.name=account}
`},
	{name: "tokens", object: "tokens=vault,", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY volume_context={K8S/serviceAccount.tokens="{\"\":{\"token\":\"token-uid-a-\",\"expirationTimestamp\":null},\"vault\":{\"token\":\"token-uid-a-vault\",\"expirationTimestamp\":null}}"}
`},
	{name: "secrets", driver: "stage expand", volume: "stage-secret publish-secret expand-secret", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY key=secret-of-stage
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY key=secret-of-publish
expand 2Gi a
  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} staging_target_path=STAGING volume_capability=CAPABILITY key=secret-of-expand
unpublish a
  NodeUnpublishVolume volume_id=v target_path=TARGET-A
unstage
  NodeUnstageVolume volume_id=v staging_target_path=STAGING
`},
	{name: "a stage secret of a driver that does not stage", volume: "stage-secret", script: `
stage: no device mount
  NodeGetCapabilities
publish a
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
`},
	{name: "secrets of a block volume", driver: "stage", volume: "block stage-secret publish-secret", script: `
setup
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING-DEVICE volume_capability=BLOCK key=secret-of-stage
map a
  NodePublishVolume volume_id=v staging_target_path=STAGING-DEVICE target_path=DEVICE-A volume_capability=BLOCK key=secret-of-publish
`},
	{name: "the secret of an inline volume is in the pod's namespace", object: "ephemeral", volume: "inline publish-secret", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability=CAPABILITY key=secret-of-publish
`},
	{name: "an attachment", driver: "stage", object: "attach", publishContext: "device=/dev/sda,lun=3", script: `
attach
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v publish_context={device=/dev/sda lun=3} staging_target_path=STAGING volume_capability=CAPABILITY
publish a
  NodePublishVolume volume_id=v publish_context={device=/dev/sda lun=3} staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY
`},
	{name: "an attachment of a driver without an object", publishContext: "device=/dev/sda", script: `
attach
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v publish_context={device=/dev/sda} target_path=TARGET-A volume_capability=CAPABILITY
`},
	{name: "an attachment without a publish context", driver: "stage", object: "attach", publishContext: "none", script: `
attach
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY
`},
	{name: "an attachment of a block volume", driver: "stage", object: "attach", volume: "block", publishContext: "device=/dev/sda", script: `
attach
setup
  NodeGetCapabilities
  NodeStageVolume volume_id=v publish_context={device=/dev/sda} staging_target_path=STAGING-DEVICE volume_capability=BLOCK
map a
  NodePublishVolume volume_id=v publish_context={device=/dev/sda} staging_target_path=STAGING-DEVICE target_path=DEVICE-A volume_capability=BLOCK
`},
	{name: "an inline volume has no attachment", object: "attach ephemeral", volume: "inline", publishContext: "device=/dev/sda", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability=CAPABILITY
`},
	{name: "a group that the driver applies", driver: "stage group", script: `
stage group=1000
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
publish a group=1000
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "a group of an inline volume", driver: "group", object: "ephemeral", volume: "inline", script: `
publish a group=1000
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "a group that the driver does not apply", driver: "stage", object: "group=None", script: `
stage group=1000
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY
publish a group=1000
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY
`},
	{name: "no group", driver: "stage group", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY
`},
	{name: "an SELinux label", driver: "stage", object: "selinux", volume: "RWOP options=noatime", script: `
stage label=system_u:object_r:container_file_t:s0:c1,c2
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4 mount_flags=[noatime "context=\"system_u:object_r:container_file_t:s0:c1,c2\""]} access_mode={mode=SINGLE_NODE_WRITER}}
publish a label=system_u:object_r:container_file_t:s0:c1,c2
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability={mount={fs_type=ext4 mount_flags=[noatime "context=\"system_u:object_r:container_file_t:s0:c1,c2\""]} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "an expansion", driver: "stage expand", volume: "options=noatime", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4 mount_flags=[noatime]} access_mode={mode=SINGLE_NODE_WRITER}}
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability={mount={fs_type=ext4 mount_flags=[noatime]} access_mode={mode=SINGLE_NODE_WRITER}}
expand 2Gi a
  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} staging_target_path=STAGING volume_capability={mount={fs_type=ext4 mount_flags=[noatime]} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "an expansion of a volume that is only published", driver: "expand", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
expand 2Gi a
  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} volume_capability=CAPABILITY
`},
	{name: "an expansion of a block volume", driver: "stage expand", volume: "block", script: `
setup
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING-DEVICE volume_capability=BLOCK
map a
  NodePublishVolume volume_id=v staging_target_path=STAGING-DEVICE target_path=DEVICE-A volume_capability=BLOCK
expand 2Gi a
  NodeExpandVolume volume_id=v volume_path=DEVICE-A capacity_range={required_bytes=2147483648} staging_target_path=STAGING-DEVICE volume_capability=BLOCK
`},
	{name: "an expansion without the capability", driver: "stage", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY
expand 2Gi a: not supported, final
`},
	{name: "statistics", driver: "stage stats", script: `
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY
stats a
  NodeGetVolumeStats volume_id=v volume_path=TARGET-A
`},
	{name: "statistics of a volume that is only published", driver: "stats", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
stats a
  NodeGetVolumeStats volume_id=v volume_path=TARGET-A
`},
	{name: "statistics without the capability", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
stats a: not supported, final
`},
}

// modeTranscripts show the access modes of calls: the first mode of the volume counts.
func modeTranscripts() (all []transcript) {
	modes := []struct{ volume, plain, multi string }{
		{"", "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"},
		{"RWO", "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"},
		{"ROX", "MULTI_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY"},
		{"RWX", "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"},
		{"RWOP", "SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER"},
		{"RWX RWO", "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"},
		{"RWO RWX", "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"},
	}
	for _, m := range modes {
		for _, driver := range []string{"stage expand", "stage expand modes"} {
			mode := m.plain
			if strings.Contains(driver, "modes") {
				mode = m.multi
			}
			capability := "volume_capability={mount={fs_type=ext4} access_mode={mode=" + mode + "}}"
			all = append(all, transcript{
				name: fmt.Sprintf("access modes %q with %s", m.volume, driver), driver: driver, volume: m.volume,
				script: strings.ReplaceAll(`
stage
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING MODE
publish a
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A MODE
expand 2Gi a
  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} staging_target_path=STAGING MODE
`, "MODE", capability),
			})
		}
	}
	return all
}

// Scripts of calls whose arguments are not the subject.
const (
	stageLine     = "  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability=CAPABILITY"
	publishLine   = "  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-A volume_capability=CAPABILITY"
	unpublishLine = "  NodeUnpublishVolume volume_id=v target_path=TARGET-A"
	unstageLine   = "  NodeUnstageVolume volume_id=v staging_target_path=STAGING"
)

// sequenceTranscripts show retries, restarts of the plugin and of the driver, and damage on disk.
var sequenceTranscripts = []transcript{
	{name: "two pods", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
publish b
  NodePublishVolume volume_id=v staging_target_path=STAGING target_path=TARGET-B volume_capability=CAPABILITY
unpublish a
` + unpublishLine + `
unpublish b
  NodeUnpublishVolume volume_id=v target_path=TARGET-B
unstage
` + unstageLine + `
`},
	{name: "everything twice", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
stage
` + stageLine + `
publish a
` + publishLine + `
publish a
` + publishLine + `
unpublish a
` + unpublishLine + `
unpublish a
unstage
` + unstageLine + `
unstage
`},
	{name: "a second life", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
unstage
` + unstageLine + `
stage
` + stageLine + `
publish a
` + publishLine + `
`},
	{name: "nothing is down already", driver: "stage", script: `
unpublish a
unstage
`},
	{name: "the capabilities are read once for each registration", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
restart driver
publish a
  NodeGetCapabilities
` + publishLine + `
unpublish a
` + unpublishLine + `
`},
	{name: "capabilities that cannot be read", driver: "stage", script: `
fail NodeGetCapabilities INTERNAL
stage: transient
  NodeGetCapabilities
fail NodeGetCapabilities UNAVAILABLE
stage: transient
  NodeGetCapabilities
stage
  NodeGetCapabilities
` + stageLine + `
`},
	{name: "a driver that is not registered", driver: "stage", script: `
unregister
stage: transient
publish a: transient
register
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
unregister
unpublish a: transient
unstage: transient
register
unpublish a
  NodeGetCapabilities
` + unpublishLine + `
unstage
` + unstageLine + `
`},
	{name: "restarts between any two steps", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
restart
publish a
  NodeGetCapabilities
` + publishLine + `
restart
unpublish a
  NodeGetCapabilities
` + unpublishLine + `
restart
unstage
  NodeGetCapabilities
` + unstageLine + `
restart
unstage
`},
	{name: "a restart and everything again", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
restart
stage
  NodeGetCapabilities
` + stageLine + `
republish a
` + publishLine + `
`},
	{name: "restarts of a block volume", driver: "stage", volume: "block", script: `
setup
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING-DEVICE volume_capability=BLOCK
restart
map a
  NodeGetCapabilities
  NodePublishVolume volume_id=v staging_target_path=STAGING-DEVICE target_path=DEVICE-A volume_capability=BLOCK
restart
unmap a
  NodeGetCapabilities
  NodeUnpublishVolume volume_id=v target_path=DEVICE-A
restart
teardown
  NodeGetCapabilities
  NodeUnstageVolume volume_id=v staging_target_path=STAGING-DEVICE
`},
	{name: "restarts of an inline volume", object: "ephemeral pod-info", volume: "inline", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=INLINE-A target_path=TARGET-A volume_capability=CAPABILITY volume_context={K8S/ephemeral=true K8S/pod.name=pod-a K8S/pod.namespace=space K8S/pod.uid=uid-a K8S/serviceAccount.name=account}
restart
unpublish a
  NodeGetCapabilities
  NodeUnpublishVolume volume_id=INLINE-A target_path=TARGET-A
`},
	{name: "a stage hangs", driver: "stage", script: `
hang NodeStageVolume
stage: uncertain
  NodeGetCapabilities
` + stageLine + `
stage
` + stageLine + `
`},
	{name: "a stage hangs after its effect, and the volume is not needed any more", driver: "stage", script: `
hang NodeStageVolume after
stage: uncertain
  NodeGetCapabilities
` + stageLine + `
unstage
` + unstageLine + `
`},
	{name: "a publish hangs, and the plugin restarts", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
hang NodePublishVolume after
publish a: uncertain
` + publishLine + `
restart
publish a
  NodeGetCapabilities
` + publishLine + `
`},
	{name: "a publish of unknown outcome, and the pod has gone after a restart", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
fail NodePublishVolume DEADLINE_EXCEEDED
publish a: uncertain
` + publishLine + `
restart
unpublish a
  NodeGetCapabilities
` + unpublishLine + `
unstage
` + unstageLine + `
`},
	{name: "an unpublish hangs", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
hang NodeUnpublishVolume after
unpublish a: uncertain
` + unpublishLine + `
restart
unpublish a
  NodeGetCapabilities
` + unpublishLine + `
`},
	{name: "an unstage hangs", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
hang NodeUnstageVolume
unstage: uncertain
` + unstageLine + `
unstage
` + unstageLine + `
`},
	// A kubelet stages at once. The plugin completes the unstage first: the driver could be working on it.
	{name: "a stage after an unstage of unknown outcome", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
fail NodeUnstageVolume UNAVAILABLE after
unstage: uncertain
` + unstageLine + `
stage
` + unstageLine + `
` + stageLine + `
`},
	{name: "a publish after an unpublish of unknown outcome", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
fail NodeUnpublishVolume UNAVAILABLE
unpublish a: uncertain
` + unpublishLine + `
publish a
` + unpublishLine + `
` + publishLine + `
`},
	// A kubelet repeats the call with the new group, and so with other arguments.
	{name: "other arguments after an unknown outcome", driver: "group", script: `
fail NodePublishVolume UNAVAILABLE after
publish a group=1000: uncertain
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
restart
publish a group=2000: already mounted, final
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
unpublish a
` + unpublishLine + `
publish a group=2000
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=2000} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "other arguments after a final error", driver: "group", script: `
fail NodePublishVolume INVALID_ARGUMENT
publish a group=1000: final
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
publish a group=2000
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=2000} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "other arguments after an unknown outcome and a final error", driver: "group", script: `
fail NodePublishVolume UNAVAILABLE
publish a group=1000: uncertain
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
fail NodePublishVolume INTERNAL
publish a group=2000: final
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
publish a group=2000
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability={mount={fs_type=ext4 volume_mount_group=2000} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "a second group of a staged volume", driver: "stage group", script: `
stage group=1000
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
restart
stage group=2000
  NodeGetCapabilities
  NodeStageVolume volume_id=v staging_target_path=STAGING volume_capability={mount={fs_type=ext4 volume_mount_group=1000} access_mode={mode=SINGLE_NODE_WRITER}}
`},
	{name: "a republish", driver: "stage", object: "republish", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
republish a
` + publishLine + `
fail NodePublishVolume INTERNAL
republish a: final
` + publishLine + `
republish a
` + publishLine + `
unpublish a
` + unpublishLine + `
`},
	{name: "a driver dies during a publish", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
die NodePublishVolume after
publish a: uncertain
` + publishLine + `
restart driver
publish a
  NodeGetCapabilities
` + publishLine + `
unpublish a
` + unpublishLine + `
`},
	{name: "a driver dies before a stage takes effect, and the volume is not needed any more", driver: "stage", script: `
die NodeStageVolume
stage: uncertain
  NodeGetCapabilities
` + stageLine + `
restart driver
unstage
  NodeGetCapabilities
` + unstageLine + `
`},
	{name: "a driver is dead", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
crash
restart
publish b: transient
unpublish a: transient
unstage: transient
restart driver
unpublish a
  NodeGetCapabilities
` + unpublishLine + `
unstage
` + unstageLine + `
`},
	{name: "a missing data file of a published volume", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
remove ROOT/pods/uid-a/volumes/kubernetes.io~csi/pv/vol_data.json
restart
unpublish a
  NodeGetCapabilities
` + unpublishLine + `
`},
	{name: "an empty data file of a published volume", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
truncate ROOT/pods/uid-a/volumes/kubernetes.io~csi/pv/vol_data.json
restart
unpublish a
  NodeGetCapabilities
` + unpublishLine + `
`},
	{name: "an empty data file of a staged volume", driver: "stage", script: `
stage
  NodeGetCapabilities
` + stageLine + `
publish a
` + publishLine + `
truncate ROOT/plugins/kubernetes.io/csi/d.example.com/4c94485e0c21ae6c41ce1dfe7b6bfaceea5ab68e40a2476f50208e526f506080/vol_data.json
restart
stage
  NodeGetCapabilities
` + stageLine + `
unpublish a
` + unpublishLine + `
unstage
` + unstageLine + `
`},
	{name: "a lifecycle mode that the driver lacks", object: "persistent", volume: "inline", script: `
publish a: transient
`},
	{name: "a persistent volume of a driver with inline volumes", object: "ephemeral", script: `
publish a: transient
`},
	{name: "a negative size of an expansion", driver: "expand", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
lie NodeExpandVolume
expand 2Gi a
  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} volume_capability=CAPABILITY
`},
	{name: "an expansion hangs", driver: "expand", script: `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
hang NodeExpandVolume
expand 2Gi a: uncertain
  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} volume_capability=CAPABILITY
expand 2Gi a
  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} volume_capability=CAPABILITY
`},
}

// codeTranscripts are a failure with each code at each call, before and after its effect, and the
// repetition of the call.
func codeTranscripts() (all []transcript) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, after := range []string{"", " after"} {
			all = append(all, failedCall(code, after)...)
		}
	}
	return all
}

// codeNames are the names of codes in the specification.
var codeNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// failedCall returns the cases of one code.
func failedCall(code codes.Code, after string) (all []transcript) {
	up, down, expand := "final", "transient", "final"
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Unavailable:
		up, down, expand = "uncertain", "uncertain", "uncertain"
	case codes.AlreadyExists:
		up = "already mounted, final"
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		expand = "infeasible, final"
	case codes.FailedPrecondition:
		expand = "failed precondition, transient"
	}
	if after != "" {
		up = strings.ReplaceAll(up, "final", "uncertain") // the driver has lied: the path is mounted
	}
	add := func(method, driver, script string) {
		name := codeNames[code]
		script = strings.NewReplacer("CODE", name+after, "UP", up, "DOWN", down, "GROW", expand).Replace(script)
		all = append(all, transcript{name: method + " fails with " + name + after, driver: driver, script: script})
	}
	add("stage", "stage", `
fail NodeStageVolume CODE
stage: UP
  NodeGetCapabilities
`+stageLine+`
stage
`+stageLine+`
publish a
`+publishLine+`
unpublish a
`+unpublishLine+`
unstage
`+unstageLine+`
`)
	add("publish", "stage", `
stage
  NodeGetCapabilities
`+stageLine+`
fail NodePublishVolume CODE
publish a: UP
`+publishLine+`
publish a
`+publishLine+`
unpublish a
`+unpublishLine+`
unstage
`+unstageLine+`
`)
	add("unpublish", "stage", `
stage
  NodeGetCapabilities
`+stageLine+`
publish a
`+publishLine+`
fail NodeUnpublishVolume CODE
unpublish a: DOWN
`+unpublishLine+`
unpublish a
`+unpublishLine+`
unstage
`+unstageLine+`
`)
	add("unstage", "stage", `
stage
  NodeGetCapabilities
`+stageLine+`
fail NodeUnstageVolume CODE
unstage: DOWN
`+unstageLine+`
unstage
`+unstageLine+`
`)
	const expandLine = "  NodeExpandVolume volume_id=v volume_path=TARGET-A capacity_range={required_bytes=2147483648} volume_capability=CAPABILITY"
	add("expand", "expand", `
publish a
  NodeGetCapabilities
  NodePublishVolume volume_id=v target_path=TARGET-A volume_capability=CAPABILITY
fail NodeExpandVolume CODE
expand 2Gi a: GROW
`+expandLine+`
expand 2Gi a
`+expandLine+`
`)
	return all
}
