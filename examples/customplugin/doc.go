// Package customplugin is a volume plugin as somebody outside of this module writes one:
// a folder with the plugin and its test. Copy it, and change what a volume is.
//
// Its volumes are the shares of a node: directories below one that the administrator
// has made, each with a name. A pod asks for one by
//
//	volumes:
//	- name: models
//	  csi:
//	    driver: share.example.com
//	    readOnly: true
//	    volumeAttributes: {share: models}
//
// Most of what volume.VolumePlugin promises comes from util.PodMounts: the directory, the
// mount, one operation at a time, what an error says; and the pod's fsGroup from package
// ownership, in owner.go. Left are the specification, which anybody may have written, and
// its recovery after a restart. That all promises are kept is for volumetest.TestPlugin to
// say: one call, in plugin_test.go.
package customplugin
