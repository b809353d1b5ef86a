module github.com/volumekit/volumekit/mount/mountutils/peertest

go 1.25.0

require (
	github.com/stretchr/testify v1.11.1
	github.com/volumekit/volumekit v0.0.0
	golang.org/x/sys v0.38.0
	k8s.io/mount-utils v0.32.0
	k8s.io/utils v0.0.0-20241104100929-3ea5e8cea738
)

require (
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/go-logr/logr v1.4.2 // indirect
	github.com/moby/sys/mountinfo v0.7.2 // indirect
	github.com/moby/sys/userns v0.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
	k8s.io/klog/v2 v2.130.1 // indirect
)

replace github.com/volumekit/volumekit => ../../..
