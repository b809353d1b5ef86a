// Package customplugin is a volume plugin as another module would contain it: a folder with
// the plugin and its test. Copy it, and replace the meaning of a volume.
//
// Its volumes are the shares of a node: named directories below one that the administrator
// has made. A pod requests one by
//
//	volumes:
//	- name: models
//	  csi:
//	    driver: share.example.com
//	    readOnly: true
//	    volumeAttributes: {share: models}
//
// podvolume.Mounts keeps most promises of volume.VolumePlugin: the directory, the mount, one
// operation at a time, errors of the right kind; package ownership applies the pod's fsGroup,
// in owner.go. The plugin itself validates the specification and recovers it after a
// restart. volumetest.TestPlugin tests all promises: one call, in plugin_test.go.
package customplugin
