"""Files as images in OCI registries, with the standard library: no Docker, no daemon. It knows nothing of jobs.

image_names           the names of registries, repositories and images
file_image            an image whose only content is one file
docker_credentials    what `docker login` has stored
registry_client       requests to a registry: look for images, and push them
"""
