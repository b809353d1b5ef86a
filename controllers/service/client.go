package service

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ClientConfig reads the configuration of a client from a file. Without a file the configuration is that
// of the pod's service account; outside of a pod that is an error. It makes no call to the API server.
func ClientConfig(file string) (*rest.Config, error) {
	if file == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", file)
}

// Connect returns a client without a limit of its calls: the API server limits its clients by itself,
// and the default of client-go, 5 calls a second, is too few for a node or a provisioner. Connect makes
// no call to the API server, and does not change the configuration.
func Connect(config *rest.Config) (*kubernetes.Clientset, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}
