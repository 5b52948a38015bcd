"""The Kubernetes API with the standard library: kubeconfig files, requests, watches. It knows nothing of jobs.

kubeconfig           finds the cluster and the user of a kubeconfig file
service_account      the same within a pod
cluster_access       what both find: where the API server is, and who the client is
credentials          bearer tokens: fixed, read from a file, or printed by a program
http_connection      one TLS connection to an API server, through a proxy or not
resources            kinds of objects, and their paths
api_client           requests: get, list, create, patch, delete
object_watch         changes of objects, as they happen
errors               errors of all of these
"""
